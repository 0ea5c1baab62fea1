"""`fedgrid doctor` on GPUs: pretended ones, none of this machine."""

import pytest
import torch

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.ray_cluster.gpus import Gpu
from fedgrid.grids.upkeep import gpus

GIB = 2**30
FIRST = Gpu("GPU 0", 38 * GIB, 40 * GIB, "NVIDIA A100")
OTHER = Gpu("GPU 1", 10 * GIB, 16 * GIB, "NVIDIA T4")


@pytest.fixture
def look(monkeypatch):
    """Return a function that looks at GPUs; `error` is raised when they are opened."""
    for name in (gpus.ORDER, "SLURM_GPUS_ON_NODE"):
        monkeypatch.delenv(name, raising=False)

    def look(*opened, listed=1, usable=1, error=None, cuda="13.0"):
        def open_here(request):
            if error:
                raise ConfigError(error)
            return opened

        monkeypatch.setattr(gpus, "listed_gpus", lambda: listed)
        monkeypatch.setattr(gpus, "usable_gpus", lambda listed: usable)
        monkeypatch.setattr(gpus, "open_here", open_here)
        monkeypatch.setattr(gpus, "why", lambda: "The NVIDIA driver is too old (found version 11040)")
        monkeypatch.setattr(gpus, "driver", lambda: "580.65.06")
        monkeypatch.setattr(torch.version, "cuda", cuda)
        return gpus.look()

    return look


def test_machine_without_a_gpu_is_well(look):
    section = look(listed=0)
    assert section.problems == []
    assert "grids train on the CPU" in section.facts["GPUs"]


def test_gpu_that_slurm_has_granted_and_no_driver_lists_is_a_problem(look, monkeypatch):
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "2")
    [problem] = look(listed=0).problems
    assert "granted 2" in problem


def test_gpus_that_can_be_used_are_described(look):
    section = look(FIRST, listed=1)
    assert section.problems == []
    assert section.facts["torch"].endswith("built for CUDA 13.0, which needs driver 580 or later")
    assert section.facts["driver"] == "580.65.06"
    assert section.facts["opened"] == "GPU 0 (NVIDIA A100) with 38.0 of 40.0 GiB for clients"


def test_driver_that_is_too_old_is_a_problem_with_the_cause(look):
    [problem] = look(listed=2, usable=0).problems
    for part in ("2 GPUs are here", "found version 11040", "update the driver", "--gpus-per-actor 0"):
        assert part in problem


def test_gpu_that_cannot_be_opened_is_a_problem_with_the_cause(look):
    """Such as exclusive mode, kernels that torch lacks, or another process that has it."""
    assert look(error="GPU 0 cannot be used: busy").problems == ["GPU 0 cannot be used: busy"]


def test_gpu_that_others_have_filled_is_a_problem(look):
    [problem] = look(Gpu("GPU 0", GIB // 4, 40 * GIB, "NVIDIA A100")).problems
    assert "GPU 0 has 0.2 GiB free" in problem
    assert "nvidia-smi" in problem


def test_order_of_unequal_gpus_is_named(look, monkeypatch):
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in look(FIRST, OTHER, listed=2).facts["order"]
    monkeypatch.setenv(gpus.ORDER, "PCI_BUS_ID")
    assert "order" not in look(FIRST, OTHER, listed=2).facts
