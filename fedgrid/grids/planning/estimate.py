"""The hours of a grid's runs, from one timed training step a model, and how many of them fit at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from fedgrid.algorithms.contract.encoder import REFERENCE, kind_of
from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import ClientData, Setup, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.encoders.encoder import Reconstruction, model_of
from fedgrid.engine.federation.inputs import random_examples
from fedgrid.engine.federation.models.flat_vectors import layout
from fedgrid.engine.federation.models.registry import AUTOENCODERS
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.runtime.clients.placement import Node, Placement, Request, at_once
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of
from fedgrid.grids.planning.images import Images, expected_images, images_trained, passes
from fedgrid.grids.planning.workload import SAME, Workload, workload_of
from fedgrid.grids.ray_cluster.cluster import num_to_place, placements

RoundsLeft = Sequence[tuple[RunConfig, int]]
"""Each run with its number of rounds still to compute, 0 if it is finished."""
FEW, MORE, MANY = 2, 24, 320
"""Images of the timed trainings: `FEW`, then `MORE`, or `MANY` of a model that needs less than `SHORT`."""
SHORT = 0.1
"""Seconds of the first training."""
FORWARD = 1 / 3
"""The time of a test, as a share of a training step's: the backward pass takes twice the forward pass."""
SERVER_SECONDS = 0.05
"""Clustering, records and files of a round: a small part, except with the smallest models."""


@dataclass(frozen=True)
class Capacity:
    """How runs of a given number of clients fit on the nodes."""

    clients: int
    placement: Placement
    at_once: int
    """How many such runs the nodes hold at the same time, if that many are waiting."""
    workers: int
    """Cores, or GPUs, that these runs keep busy."""

    @property
    def reserves(self) -> str:
        """The resources of a run, in words."""
        actors = self.placement.num_actors
        resources = f"{self.placement.cpus_per_actor:g} CPU"
        if self.placement.gpus_per_actor:
            resources += f", {self.placement.gpus_per_actor:g} GPU"
        if self.placement.memory_per_actor:
            resources += f", {self.placement.memory_per_actor / 1e9:.1f} GB main memory"
        if self.placement.in_server:
            return f"server with {self.clients} clients, {self.placement.bundles()[0]['CPU']:g} CPU"
        if actors == self.clients:
            return f"server + {actors} clients x {resources}"
        fewest, most = self.clients // actors, -(-self.clients // actors)
        hosted = f"{most}" if most == fewest else f"{fewest} or {most}"
        if actors == 1:
            return f"server + 1 actor of {hosted} clients, {resources}"
        return f"server + {actors} actors of {hosted} clients, {resources} each"


def capacities_of(
    left: RoundsLeft, nodes: Sequence[Node], request: Request, *, by_shared_prefix: bool = False
) -> dict[int, Capacity]:
    """Return number of clients -> how such runs fit; `by_shared_prefix`: see `num_to_place`.

    Raises:
        ConfigError: if a run cannot fit on the nodes.
    """
    waiting = max(1, num_to_place([run for run, rounds in left if rounds], by_shared_prefix=by_shared_prefix))
    capacities = {}
    for clients, placement in placements([run for run, _ in left], nodes, request, waiting).items():
        runs = at_once(placement, nodes)
        # Actors that share a GPU, or a core, take turns on it.
        has = sum(int(node.gpus if placement.gpus_per_actor else node.cpus) for node in nodes)
        workers = min(max(1, has), min(runs, waiting) * placement.num_actors)
        capacities[clients] = Capacity(clients, placement, runs, workers)
    return capacities


@dataclass(frozen=True)
class Speed:
    """Seconds on one core, or on a GPU without other load."""

    turn: float
    """A client's turn in a round, beside its steps: loading the model and returning it."""
    image: float
    """A training step, an image."""


def time_training(load: Workload, device: str) -> Speed:
    """Time a training on a few random images and one on more, on the device `cpu` or `cuda`.

    The difference is what more images take.

    Raises:
        ConfigError: the images are too small for the model.
        RunError: the model cannot be trained like this.
    """
    stack = range(load.training.stacked)
    held = {size: _random_set(load, size) for size in (FEW, MORE, MANY)}
    clients = {size: [at * len(stack) + client for client in stack] for at, size in enumerate(held)}
    setup = Setup(
        model=load.model,
        num_classes=load.num_classes,
        training=load.training.model_copy(update={"normalise": "none"}),
        seed=0,
        clients=tuple(
            ClientData(client, held[size], held[size]) for size in held for client in clients[size]
        ),
        server_set=held[FEW],
        server_parts={},
        plugins=load.plugins,
    )
    worker = ClientWorker(setup, device)
    # Its values change no time.
    model = np.zeros(layout(load.model, load.inputs, load.num_classes).size, np.float32)
    rule = Reconstruction() if load.model in AUTOENCODERS else PLAIN
    # A CPU's clock leaves other processes out, but has no GPU's work.
    clock = process_time if device == "cpu" else perf_counter

    def seconds(size: int) -> float:
        """Return the seconds of a client with this many images; of a stack, its share."""
        tasks = [TrainTask(Order(client, (0,), rule=rule), 0, evaluate=False) for client in clients[size]]
        begun = clock()
        worker.train(tasks, [model], {})
        return (clock() - begun) / len(stack)

    seconds(FEW)  # Libraries start in it.
    few = seconds(FEW)
    more = MANY if few < SHORT else MORE
    longer = seconds(more)
    if longer <= few:
        # Other work on the machine: all of it is taken for steps.
        return Speed(0.0, longer / more)
    image = (longer - few) / (more - FEW)
    return Speed(max(0.0, few - FEW * image), image)


def _random_set(load: Workload, size: int) -> ImageSet:
    images = random_examples(load.inputs, size, np.random.default_rng(0))
    return ImageSet(images, np.zeros(size, np.int64), vocabulary=load.inputs.vocabulary)


def run_seconds(config: RunConfig, images: Images, speed: Speed, rounds: int, actors: int = 1) -> float:
    """Return the seconds of one core or GPU that a run's last `rounds` rounds take without a round cache."""
    asked = config.participation * (1 - config.dropout)
    training = asked * (images_trained(config, images) * speed.image + config.clients * speed.turn)
    tests = passes(config, images, rounds, actors) * speed.image * FORWARD
    return rounds * (training + SERVER_SECONDS) + tests


@dataclass(frozen=True)
class EncoderPlan:
    """The training of one encoder before the first round."""

    workload: Workload
    public_images: float
    """How many images the server passes through it on one core or GPU, counted in every epoch."""
    federated_images: float
    """How many its clients do, all together, on all cores or GPUs."""
    public: str = ""
    """The data set that the server trains it on, if that is one of its own."""


def encoder_plans(left: RoundsLeft, dataset: Dataset, data_dir: Path) -> list[EncoderPlan]:
    """Return the encoders of those runs of a data set that have not begun.

    A public one is the same for all of them, a federated one for those that share a scenario and seed.
    """
    plans = {}
    for run, rounds in left:
        message = algorithm_of(run).message() if rounds == run.training.rounds else None
        settings = None if message is None else message.encoder
        if settings is None or kind_of(settings, dataset.inputs.shape) in ("pca", "pixels"):
            continue
        public = "" if settings.public in (None, REFERENCE) else str(settings.public)
        images = find(public, data_dir).pool_size if public else 0
        if settings.public == REFERENCE:
            images = run.split.reference_images or 0
        rounds_of_clients = settings.federated * settings.participation * settings.local_epochs
        training = LocalTraining(batch_size=settings.batch_size, optimizer="adam", **SAME)
        model = model_of(kind_of(settings, dataset.inputs.shape))
        key = settings.model_dump_json(), run.shared_prefix if settings.federated else ""
        plans[key] = EncoderPlan(
            Workload(model, dataset.inputs, dataset.num_classes, training),
            images * settings.epochs,
            rounds_of_clients * expected_images(run, dataset).train,
            public,
        )
    return list(plans.values())


@dataclass(frozen=True)
class Estimator:
    """Estimates hours of runs, with all nodes at work on them; times each model once."""

    data_dir: Path
    device: str
    """On which models are timed, `cpu` or `cuda`."""
    capacities: Mapping[int, Capacity]
    """By number of clients."""
    _speeds: dict[Workload, Speed] = field(default_factory=dict)
    """By workload, without its number of classes, which changes no time."""

    def hours(self, left: RoundsLeft, encoders: Sequence[EncoderPlan]) -> float:
        """Return the hours of runs and of the encoders before them; raises as `time_training`."""
        most = max(capacity.workers for capacity in self.capacities.values())
        seconds = 0.0
        for plan in encoders:
            images = plan.public_images + plan.federated_images / most
            seconds += images * self.speed_of(plan.workload).image
        for run, rounds in left:
            images_of_run = expected_images(run, find(run.dataset, self.data_dir))
            place, speed = self.capacities[run.clients], self.speed_of(workload_of(run, self.data_dir))
            actors = place.placement.num_actors
            seconds += run_seconds(run, images_of_run, speed, rounds, actors) / place.workers
        return seconds / 3600

    def speed_of(self, load: Workload) -> Speed:
        """Return the speed of a workload; raises as `time_training`."""
        key = replace(load, num_classes=0)
        if key not in self._speeds:
            self._speeds[key] = time_training(load, self.device)
        return self._speeds[key]
