"""What decides how long a client's training takes and how much memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.training.settings import LocalTraining, Schedule
from fedgrid.engine.runtime.data.datasets import find

SAME: dict[str, Any] = {
    **{"local_epochs": 1, "local_steps": None},
    **{"learning_rate": 1e-6, "schedule": Schedule()},
}
"""Settings that change neither the time of a batch nor its memory."""


@dataclass(frozen=True)
class Workload:
    """All that decides what a client actor's training takes, but for the images that it holds."""

    model: str
    inputs: Inputs
    num_classes: int
    training: LocalTraining
    """`stacked`: how many clients train at once; a run of fewer clients has a smaller stack."""
    plugins: tuple[str, ...] = ()
    """Digests of the run's plugins, of which the model may be one."""


def workload_of(run: RunConfig, data_dir: Path) -> Workload:
    """Return the workload of a run; settings that change nothing in it are those of all others."""
    dataset, training = find(run.dataset, data_dir), run.training.local
    return Workload(
        run.model,
        dataset.inputs,
        dataset.num_classes,
        training.model_copy(update={**SAME, "stacked": min(training.stacked, run.clients)}),
        tuple(run.plugin_digests),
    )
