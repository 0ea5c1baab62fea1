"""Describe a client's training by what decides its time and memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.training.settings import LocalTraining, Schedule
from fedgrid.engine.runtime.data.datasets import find_dataset

NEUTRAL_SETTINGS: dict[str, Any] = {
    **{"local_epochs": 1, "local_steps": None},
    **{"learning_rate": 1e-6, "schedule": Schedule()},
}
"""Values for the settings that change neither the time nor the memory of a batch; equal in all workloads."""


@dataclass(frozen=True)
class Workload:
    """All that decides the time and memory of a client actor's training, except its images."""

    model: str
    inputs: Inputs
    num_classes: int
    training: LocalTraining
    """Training settings; `stacked` is the number of clients that train at once, fewer in a run of fewer
    clients."""
    plugins: tuple[str, ...] = ()
    """Digests of the run's plugins, one of which may be the model; default: none."""


def find_workload(run: RunConfig, data_dir: Path) -> Workload:
    """Find the workload of a run, in which settings without influence have the same values for all runs."""
    dataset, training = find_dataset(run.dataset, data_dir), run.training.local
    return Workload(
        run.model,
        dataset.inputs,
        dataset.num_classes,
        training.model_copy(update={**NEUTRAL_SETTINGS, "stacked": min(training.stacked, run.clients)}),
        tuple(run.plugin_digests),
    )
