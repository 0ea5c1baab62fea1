"""Opening GPUs before anything starts: what would stop client actors stops here, in one line.

Pretended GPUs are opened by processes of their own, as real ones are (`tests/helpers/pretended_gpu.py`).
"""

import json
import sys

import pytest
import torch
from ray._private.accelerators import NvidiaGPUAcceleratorManager

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.placement import Node, Request
from fedgrid.grids.ray_cluster import gpus, nodes
from fedgrid.grids.ray_cluster.gpus import Gpu, open_all, open_here
from fedgrid.grids.ray_cluster.open_gpu import opened
from tests.helpers.gpu_stand_in import StandIn
from tests.helpers.pretended_gpu import BUSY, COMMAND

GB = 10**9
NO_MEMORY = """CUDA error: out of memory
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be
incorrect."""
FREE = {"free": 7 * GB, "total": 8 * GB}


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    """Return a function that says what GPUs are like, and opens them."""

    def open_them(shown, *, only=None, **given):
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setenv("PRETENDED", json.dumps(shown))
        return open_all(list(only or shown), command=COMMAND, **given)

    return open_them


def refused(pretend, shown, **given):
    """Return the one line in which GPUs are refused."""
    with pytest.raises(ConfigError) as error:
        pretend(shown, **given)
    assert "\n" not in str(error.value)
    return str(error.value)


class TestOneProcess:
    def test_it_tells_model_free_and_total_memory(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (7, 8))
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA A100")
        with StandIn() as gpu:
            assert opened() == {"free": 7, "total": 8, "model": "NVIDIA A100"}
        assert gpu.peak > 0
        assert gpu.waits.total() == 1, "the kernel's result is read"

    @pytest.mark.parametrize("cause", [NO_MEMORY, BUSY])
    def test_it_tells_the_cause_in_one_line(self, monkeypatch, cause):
        def fail(*given, **how):
            raise RuntimeError(cause)

        monkeypatch.setattr(torch, "ones", fail)
        assert opened() == {"cause": cause.splitlines()[0]}

    def test_it_is_found_and_fails_where_there_is_no_such_gpu(self):
        """The real program, in a process of its own."""
        with pytest.raises(ConfigError, match=r"GPU 99 cannot be used: \S+.*; --gpus-per-actor 0"):
            open_all(["99"], shared=False)


class TestAll:
    def test_each_is_opened_by_itself_and_named(self, pretend):
        shown = {"3": FREE, "MIG-aa": {"free": 2 * GB, "total": 4 * GB}}
        assert pretend(shown, of=" of node n1") == (
            Gpu("GPU 3 of node n1", 7 * GB, 8 * GB),
            Gpu("GPU MIG-aa of node n1", 2 * GB, 4 * GB),
        )

    @pytest.mark.parametrize("cause", ["CUDA error: out of memory", BUSY])
    def test_one_that_others_use_is_refused_and_can_be_left_out(self, pretend, cause):
        line = refused(pretend, {"0": FREE, "1": {"cause": cause}, "2": FREE})
        for part in (
            "GPU 1 cannot be used",
            cause,
            "nvidia-smi",
            "CUDA_VISIBLE_DEVICES=0,2",
            "--gpus-per-actor 0",
        ):
            assert part in line

    def test_of_another_node_it_is_left_out_where_ray_starts_there(self, pretend):
        line = refused(pretend, {"0": FREE, "1": {"cause": BUSY}}, of=" of node n1")
        assert "GPU 1 of node n1" in line
        assert "CUDA_VISIBLE_DEVICES=0 where Ray is started there" in line

    def test_several_are_named_together(self, pretend):
        line = refused(pretend, {"0": {"cause": "driver lost"}, "1": {"cause": "driver lost"}})
        assert line.startswith("GPUs 0, 1 cannot be used: driver lost")
        assert "CUDA_VISIBLE_DEVICES" not in line
        assert "nvidia-smi" not in line

    def test_exclusive_mode_is_refused_for_actors_that_share(self, pretend):
        line = refused(pretend, {"0": {"alone": True, **FREE}})
        for part in ("GPU 0", "two processes", BUSY, "--compute-mode", "MPS", "--gpus-per-actor 1"):
            assert part in line

    def test_exclusive_mode_does_for_an_actor_a_gpu(self, pretend):
        assert pretend({"0": {"alone": True, **FREE}}, shared=False) == (Gpu("GPU 0", 7 * GB, 8 * GB),)

    def test_a_process_that_dies_is_told_with_its_last_error(self, pretend):
        assert "GPU 0 cannot be used: RuntimeError: CUDA error: unknown error" in refused(
            pretend, {"0": {"dies": True}}
        )

    def test_a_process_that_says_nothing_at_its_end_is_told_with_its_code(self):
        with pytest.raises(ConfigError, match="GPU 0 cannot be used: its process ended with code 7"):
            open_all(["0"], command=[sys.executable, "-c", "raise SystemExit(7)"])

    def test_a_gpu_that_hangs_is_not_waited_for(self, pretend, monkeypatch):
        monkeypatch.setattr(gpus, "SECONDS", 0.2)
        assert "GPU 0 cannot be used: no answer within 0.2 s" in refused(pretend, {"0": {"hangs": True}})


class TestHere:
    @pytest.fixture
    def here(self, monkeypatch):
        """Return a function that says how many GPUs are here, and what was opened."""
        asked = []

        def give(number, shown=None):
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
            if shown is not None:
                monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
            monkeypatch.setattr(gpus, "local_nodes", lambda: (Node(8, number),))
            monkeypatch.setattr(gpus, "open_all", lambda *given, **how: asked.append((given, how)) or (FREE,))
            return asked

        return give

    def test_nothing_is_opened_without_a_gpu_or_without_the_wish_for_one(self, here):
        asked = here(0)
        assert open_here(Request()) == ()
        here(2)
        assert open_here(Request(gpus_per_client=0)) == ()
        assert asked == []

    @pytest.mark.parametrize(
        ("shown", "names"),
        [(None, ["0", "1"]), ("4,6", ["4", "6"]), ("MIG-a,MIG-b,MIG-c", ["MIG-a", "MIG-b"])],
    )
    def test_those_that_the_environment_shows_are_opened(self, here, shown, names):
        asked = here(2, shown)
        open_here(Request())
        assert asked == [((names,), {"shared": True})]

    @pytest.mark.parametrize(("share", "shared"), [(None, True), (0.5, True), (0.6, False), (1, False)])
    def test_two_processes_open_one_where_actors_may_share_it(self, here, share, shared):
        asked = here(1)
        open_here(Request(gpus_per_client=share))
        assert [how["shared"] for _, how in asked] == [shared]

    def test_the_variable_is_that_of_the_accelerator(self, monkeypatch):
        """AMD's have another."""
        monkeypatch.setattr(
            NvidiaGPUAcceleratorManager, "get_visible_accelerator_ids_env_var", lambda: "OTHER_DEVICES"
        )
        monkeypatch.setenv("OTHER_DEVICES", "5")
        assert (nodes.shown_by(), nodes.shown_gpus(1)) == ("OTHER_DEVICES", ["5"])
