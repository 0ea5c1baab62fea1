"""Jobs on GPUs: one that cannot be used is refused before anything starts, in words that fit the command."""

import json
import shutil
from contextlib import nullcontext

import pytest
import torch
from ray._private.accelerators import NvidiaGPUAcceleratorManager
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.clients.placement import Node
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.analyses import execute
from fedgrid.grids.analyses.analysis import Analysis, AnalysisSettings, Artifacts, Context, Job
from fedgrid.grids.analyses.command import How, Result, analyse
from fedgrid.grids.ray_cluster import cluster, gpus
from fedgrid.grids.ray_cluster.gpus import Gpu, unmeasured_share
from tests.helpers.explained import GRID, RUNS, finished_grid
from tests.helpers.pretended_gpu import BUSY, COMMAND
from tests.helpers.small_grid import NOWHERE

GB = 10**9
FREE = {"free": 7 * GB, "total": 8 * GB}


class Numbered(Analysis):
    """Numbers each run."""

    name = "numbered"

    def compute(self, job, context):
        return Artifacts({"number": 1})


class NumberedOnGpu(Numbered):
    """The same on a GPU."""

    on_gpu = True


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return finished_grid(tmp_path_factory.mktemp("finished"))


@pytest.fixture
def storage(finished, tmp_path):
    """A copy of the grid, for a test that writes."""
    shutil.copytree(finished.root, tmp_path / "runs")
    return Storage(tmp_path / "runs")


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Return a function that says what this machine's GPUs are like; Ray must not be started."""

    def never(*given):
        raise AssertionError("Ray is started")

    def give(*pretended, usable=True):
        named = dict(zip("01", pretended, strict=False))
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setenv("PRETENDED", json.dumps(named))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(gpus, "COMMAND", COMMAND)
        monkeypatch.setattr(
            NvidiaGPUAcceleratorManager, "get_current_node_num_accelerators", lambda: len(named)
        )
        monkeypatch.setattr(torch.cuda, "is_available", lambda: usable)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: len(named))
        monkeypatch.setattr("ray.is_initialized", lambda: False)
        for module in (cluster, execute):
            monkeypatch.setattr(module, "address", lambda: cluster.LOCAL)
        monkeypatch.setattr(execute, "connected", never)

    return give


def run(storage, analysis, **options):
    how = How(**{"as_json": True, **options})
    return analyse(analysis, GRID, storage, NOWHERE, AnalysisSettings(), Console(quiet=True), how=how)


def refused(storage, **options):
    """Return the line in which jobs on GPUs are refused; nothing may be written."""
    before = sorted(storage.root.rglob("*"))
    with pytest.raises(ConfigError) as error:
        run(storage, NumberedOnGpu(), **options)
    assert sorted(storage.root.rglob("*")) == before
    line = str(error.value)
    assert "--in-process" in line
    assert "\n" not in line
    return line


@pytest.mark.parametrize("dry_run", [False, True])
def test_busy_gpu_is_refused_and_can_be_left_out(storage, machine, dry_run):
    machine(FREE, {"cause": BUSY})
    line = refused(storage, dry_run=dry_run)
    for part in ("GPU 1 cannot be used", BUSY, "nvidia-smi", "CUDA_VISIBLE_DEVICES=0 leaves it out"):
        assert part in line


def test_gpu_that_takes_a_process_at_a_time_is_refused(storage, machine):
    machine({"alone": True, **FREE})
    assert "two processes" in refused(storage)


def test_gpu_that_torch_cannot_use_is_not_silently_left_for_the_cpu(storage, machine):
    machine(FREE, usable=False)
    assert "1 GPU is here, but torch cannot use it" in refused(storage)


@pytest.mark.parametrize(
    ("analysis", "how"),
    [(Numbered(), {"dry_run": True}), (NumberedOnGpu(), {"in_process": True})],
    ids=["dry run of what uses no GPU", "in this process"],
)
def test_gpu_that_nothing_uses_is_not_looked_at(storage, machine, analysis, how):
    machine({"cause": BUSY}, usable=False)
    assert run(storage, analysis, **how) == Result()


def test_nothing_is_opened_where_all_is_done(storage, machine):
    machine({"cause": BUSY})
    run(storage, NumberedOnGpu(), in_process=True)
    assert run(storage, NumberedOnGpu()) == Result()


def test_gpus_of_a_cluster_are_opened_there_before_the_first_job(storage, monkeypatch):
    def refuse(request):
        raise ConfigError("GPU 0 of node n1 cannot be used; try --in-process")

    monkeypatch.setattr(execute, "address", lambda: "10.0.0.1:6379")
    monkeypatch.setattr(execute, "open_on_cluster", refuse)
    monkeypatch.setattr(execute, "connected", nullcontext)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(ConfigError, match="GPU 0 of node n1 .* --in-process"):
        run(storage, NumberedOnGpu())


def test_share_of_what_is_free_is_a_twentieth_of_the_whole():
    assert unmeasured_share([]) == 0.05
    assert unmeasured_share([Gpu("GPU 0", 4 * GB, 8 * GB), Gpu("GPU 1", 24 * GB, 24 * GB)]) == 0.1
    assert unmeasured_share([Gpu("GPU 0", GB // 100, 8 * GB)]) == 1


def test_a_card_that_is_three_quarters_full_has_five_processes(monkeypatch):
    """Of twenty that an empty one would have."""

    class Placed(Exception):
        pass

    def note(place):
        raise Placed(place.num_actors, place.gpus_per_actor)

    monkeypatch.setattr(execute, "cluster_nodes", lambda: (Node(32, 1, 100 * GB),))
    monkeypatch.setattr(execute, "_on_gpus", note)
    jobs = [Job(RUNS[0], None, str(number), 1) for number in range(20)]
    for free, placed in ((8 * GB, (20, 0.05)), (2 * GB, (5, 0.2))):
        with pytest.raises(Placed) as found:
            execute.run_on_ray(
                NumberedOnGpu(),
                jobs,
                Context(Storage(NOWHERE), NOWHERE, {}),
                "token",
                lambda: None,
                lambda ended: None,
                [Gpu("GPU 0", free, 8 * GB)],
            )
        assert found.value.args == placed
