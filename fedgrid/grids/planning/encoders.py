"""The encoders that a grid's runs train before their first rounds, each once, and how long that takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedgrid.algorithms.contract.encoder import REFERENCE, EncoderSettings, kind_of
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.encoders.encoder import model_of
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of
from fedgrid.grids.planning.calibrate import Speed, Workload
from fedgrid.grids.planning.images import expected_images

RoundsLeft = Sequence[tuple[RunConfig, int]]
"""Each run with its number of rounds still to compute, 0 if it is finished."""


@dataclass(frozen=True)
class EncoderPlan:
    """The training of one encoder."""

    workload: Workload
    public_images: float
    """How many images the server passes through it, counted in every epoch."""
    federated_images: float
    """How many its clients do, all together."""
    turns: float
    """How often a client trains."""
    public: str = ""
    """The data set that the server trains it on, if that is one of its own."""

    def seconds(self, speeds: Mapping[Workload, Speed], workers: int) -> float:
        """Return how long it takes: the server's training on one core or GPU, the clients' on this many."""
        speed = speeds[self.workload]
        of_clients = self.turns * speed.turn + self.federated_images * speed.train
        return self.public_images * speed.train + of_clients / workers


def encoder_plans(left: RoundsLeft, dataset: Dataset, data_dir: Path) -> list[EncoderPlan]:
    """Return the encoders of those runs of a data set that have not begun.

    A public one is the same for all of them, a federated one for those that share a scenario and seed.
    """
    plans = {}
    for run, rounds in left:
        if rounds < run.training.rounds:
            continue
        message = algorithm_of(run).message()
        settings = None if message is None else message.encoder
        if settings is None or kind_of(settings, dataset.shape) in ("pca", "pixels"):
            continue
        key = settings.model_dump_json(), run.shared_prefix if settings.federated else ""
        plans[key] = _plan(run, settings, dataset, data_dir)
    return list(plans.values())


def _plan(run: RunConfig, settings: EncoderSettings, dataset: Dataset, data_dir: Path) -> EncoderPlan:
    public, name = 0, ""
    if settings.public == REFERENCE:
        public = run.split.reference_images or 0
    elif settings.public is not None:
        name = settings.public
        public = find(name, data_dir).pool_size
    rounds = settings.federated * settings.participation
    return EncoderPlan(
        Workload(model_of(kind_of(settings, dataset.shape)), dataset.shape, settings.batch_size, "adam"),
        float(public * settings.epochs),
        rounds * settings.local_epochs * expected_images(run, dataset).train,
        rounds * run.clients,
        name,
    )


def workloads_of(left: RoundsLeft, data_dir: Path) -> list[Workload]:
    """Return what unfinished runs train: their models and encoders, each once."""
    found: dict[Workload, None] = {}
    for run, rounds in left:
        if not rounds:
            continue
        dataset = find(run.dataset, data_dir)
        encoders = encoder_plans([(run, rounds)], dataset, data_dir)
        found |= dict.fromkeys((Workload.of(run, dataset), *(plan.workload for plan in encoders)))
    return list(found)
