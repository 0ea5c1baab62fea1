"""A client actor that cannot start says why, at once; one whose process died is replaced."""

from types import SimpleNamespace

import pytest
import torch
from ray.exceptions import ActorDiedError

from fedgrid.engine.federation.errors import FinalError, RunError, client_error_context, is_final
from fedgrid.engine.runtime.clients import ray_pool
from fedgrid.engine.runtime.clients.actor import Client, explain_death
from fedgrid.engine.runtime.clients.gpu_errors import name_share
from fedgrid.engine.runtime.clients.placement import Placement
from fedgrid.engine.runtime.clients.ray_pool import RayPool
from tests.helpers.client_actors import start_client_actors

OLD_DRIVER = (
    "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version."
)
NO_MEMORY = """RuntimeError: CUDA error: out of memory
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."""


def failed_start(cause):
    """Return Ray's error of an actor whose `__init__` raised, as Ray 2.60 words it."""
    error = ActorDiedError()
    error._actor_init_failed = True
    error.error_msg = (
        "The actor died because of an error raised in its creation task, ray::Client.__init__() (pid=1)\n"
        '  File "actor.py", line 70, in __init__\n'
        "    torch.cuda.set_per_process_memory_fraction(gpu_share)\n"
        f"{cause}"
    )
    return error


def test_old_driver_is_named_and_is_final():
    with pytest.raises(FinalError, match="driver on your system is too old .found version 11040.$") as raised:
        explain_death(failed_start(OLD_DRIVER))
    assert is_final(raised.value)


@pytest.mark.parametrize(
    "cause", [NO_MEMORY, "RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable"]
)
def test_gpu_that_others_use_is_named_and_the_run_may_be_retried(cause):
    with pytest.raises(RunError, match="(out of memory|busy or unavailable); .*nvidia-smi") as raised:
        explain_death(failed_start(cause))
    assert not is_final(raised.value)
    assert "DSA" not in str(raised.value)


def test_death_of_a_process_says_how_it_ended():
    error = ActorDiedError()
    error.error_msg = (
        "The actor died unexpectedly before finishing this task.\n\tclass_name: Client\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit "
        "detail: killed. Some common causes include: (1) the OOM killer"
    )
    assert explain_death(error) == (
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit "
        "detail: killed."
    )


def test_actor_that_cannot_start_is_not_started_again(monkeypatch):
    started = []

    def get(refs, timeout):
        raise failed_start(OLD_DRIVER)

    monkeypatch.setattr(ray_pool, "ray", SimpleNamespace(get=get, kill=started.append))
    monkeypatch.setattr(RayPool, "_start_actor", lambda self, index: started.append(index))
    pool = RayPool(None, Placement(2, 1.0, 0.5))
    with pytest.raises(FinalError, match="driver on your system is too old"):
        pool._call_actors(range(2), lambda index: [index], "machine", "before round 1")
    assert started == [0, 1]


@pytest.mark.ray
def test_actor_whose_gpu_is_not_there_shows_torchs_own_cause(ray_session, monkeypatch):
    """Its share of a GPU is not reserved, and its environment hides any GPU that is here."""

    def start(self, index):
        hidden = {"env_vars": {"CUDA_VISIBLE_DEVICES": ""}}
        return Client.options(num_cpus=0.1, runtime_env=hidden).remote(0.5, "Client actor 1 of 1")

    monkeypatch.setattr(RayPool, "_start_actor", start)
    with start_client_actors(1) as pool, pytest.raises(FinalError, match="did not start: .*(CUDA|NVIDIA)"):
        pool.machines()


@pytest.mark.parametrize(
    ("share", "step"), [(0.05, "--gpus-per-actor 0.1 "), (0.75, "--gpus-per-actor 1 "), (1.0, "batch_size")]
)
def test_memory_that_runs_out_names_the_setting_that_gives_more(share, step):
    line = "^client 3, round 1: OutOfMemoryError: CUDA out of memory; "
    with pytest.raises(RunError, match=line) as caught, name_share(share), client_error_context(3, 0):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    assert step in str(caught.value)
    assert not is_final(caught.value)


def test_other_errors_stay_as_they_are():
    with pytest.raises(ZeroDivisionError), name_share(0.5):
        raise ZeroDivisionError


def test_whole_gpu_may_be_a_whole_number(monkeypatch):
    """torch takes no int for the limit of an actor's memory."""
    limits = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", limits.append)
    Client.__ray_metadata__.modified_class(1)
    assert [type(limit) for limit in limits] == [float]
