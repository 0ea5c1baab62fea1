"""Jobs on GPUs that torch cannot use are refused before anything starts, in words that fit the command."""

import pytest
import torch
from ray._private.accelerators import NvidiaGPUAcceleratorManager
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.analyses.analysis import Analysis, AnalysisSettings, Artifacts
from fedgrid.grids.analyses.command import AnalysisEnd, analyse_runs
from fedgrid.grids.ray_cluster import cluster
from tests.helpers.explained import GRID
from tests.helpers.small_grid import NOWHERE


class Numbered(Analysis):
    """Numbers each run."""

    name = "numbered"

    def compute(self, job, context):
        return Artifacts({"number": 1})


class NumberedOnGpu(Numbered):
    """The same on a GPU."""

    on_gpu = True


@pytest.fixture(autouse=True)
def useless_gpu(monkeypatch):
    """The machine has a GPU that torch cannot use."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(NvidiaGPUAcceleratorManager, "get_current_node_num_accelerators", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr(cluster, "find_address", lambda: cluster.LOCAL)


def run(storage, analysis, **options):
    how = {"as_json": True, **options}
    return analyse_runs(analysis, GRID, storage, NOWHERE, AnalysisSettings(), Console(quiet=True), **how)


def test_gpu_that_torch_cannot_use_is_not_silently_left_for_the_cpu(storage):
    before = sorted(storage.root.rglob("*"))
    with pytest.raises(ConfigError, match="1 GPU is here, but torch cannot use it: .* --in-process"):
        run(storage, NumberedOnGpu())
    assert sorted(storage.root.rglob("*")) == before


@pytest.mark.parametrize(
    ("analysis", "how"),
    [(Numbered(), {"dry_run": True}), (NumberedOnGpu(), {"in_process": True})],
    ids=["dry run of what uses no GPU", "in this process"],
)
def test_gpu_that_nothing_uses_is_not_looked_at(storage, analysis, how):
    assert run(storage, analysis, **how) == AnalysisEnd()
