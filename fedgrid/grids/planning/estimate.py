"""Estimate the hours of a grid's runs from one timed step of each model, and how many runs fit at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from fedgrid.algorithms.contract.encoder import REFERENCE, choose_kind
from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import ClientData, Setup, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.dataset import Dataset
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.encoders.encoder import NUM_CLASSES, Reconstruction, format_model_name
from fedgrid.engine.federation.inputs import draw_examples
from fedgrid.engine.federation.models.flat_vectors import build_layout
from fedgrid.engine.federation.models.registry import AUTOENCODERS
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.runtime.clients.placement import Node, Placement, PlacementRequest, count_runs_at_once
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.grids.planning.images import (
    ImageCounts,
    count_images_trained,
    count_test_passes,
    estimate_images,
)
from fedgrid.grids.planning.workload import NEUTRAL_SETTINGS, Workload, find_workload
from fedgrid.grids.ray_cluster.cluster import compute_placements, count_concurrent_runs

RoundsLeft = Sequence[tuple[RunConfig, int]]
"""Each run with its number of rounds still to compute, 0 if it is finished."""
FEW_IMAGES, MORE_IMAGES, MANY_IMAGES = 2, 24, 320
"""Images of the timed trainings: `FEW_IMAGES`, then `MORE_IMAGES`, or `MANY_IMAGES` for a model that needs
less than `SHORT_SECONDS` seconds."""
SHORT_SECONDS = 0.1
"""Seconds of the first training below which its time is too short to be measured reliably."""
FORWARD_SHARE = 1 / 3
"""Time of a test as a share of a training step's: the backward pass takes twice the forward pass."""
SERVER_SECONDS = 0.05
"""Seconds for clustering, records and files of a round: a small part, except with the smallest models."""


@dataclass(frozen=True)
class Capacity:
    """How runs with a given number of clients fit on the nodes; its fields are keys of the JSON plan."""

    clients: int
    placement: Placement
    at_once: int
    """Number of such runs that the nodes have room for at the same time, if that many are waiting."""
    workers: int
    """Number of cores, or GPUs, that these runs keep busy."""

    @property
    def reserves(self) -> str:
        """Description of the resources of a run."""
        actors = self.placement.num_actors
        resources = f"{self.placement.cpus_per_actor:g} CPU"
        if self.placement.gpus_per_actor:
            resources += f", {self.placement.gpus_per_actor:g} GPU"
        if self.placement.memory_per_actor:
            resources += f", {self.placement.memory_per_actor / 1e9:.1f} GB main memory"
        if self.placement.in_server:
            return f"server with {self.clients} clients, {self.placement.build_bundles()[0]['CPU']:g} CPU"
        if actors == self.clients:
            return f"server + {actors} clients x {resources}"
        fewest, most = self.clients // actors, -(-self.clients // actors)
        hosted = f"{most}" if most == fewest else f"{fewest} or {most}"
        if actors == 1:
            return f"server + 1 actor of {hosted} clients, {resources}"
        return f"server + {actors} actors of {hosted} clients, {resources} each"


def compute_capacities(
    left: RoundsLeft, nodes: Sequence[Node], request: PlacementRequest, *, by_shared_prefix: bool = False
) -> dict[int, Capacity]:
    """Compute number of clients -> how such runs fit.

    Args:
        left: the runs with their rounds left.
        nodes: the cluster.
        request: what the user reserves for an actor.
        by_shared_prefix: whether runs of one shared prefix run one after another, as in
            `count_concurrent_runs`; default False.

    Raises:
        ConfigError: if a run cannot fit on the nodes.
    """
    waiting = max(
        1, count_concurrent_runs([run for run, rounds in left if rounds], by_shared_prefix=by_shared_prefix)
    )
    capacities = {}
    for clients, placement in compute_placements([run for run, _ in left], nodes, request, waiting).items():
        runs = count_runs_at_once(placement, nodes)
        # Actors that share a GPU, or a core, take turns on it.
        has = sum(int(node.gpus if placement.gpus_per_actor else node.cpus) for node in nodes)
        workers = min(max(1, has), min(runs, waiting) * placement.num_actors)
        capacities[clients] = Capacity(clients, placement, runs, workers)
    return capacities


@dataclass(frozen=True)
class Speed:
    """Times on one core, or on a GPU without other load."""

    seconds_per_turn: float
    """Seconds of a client's turn in a round, apart from its steps: loading the model and returning it."""
    seconds_per_image: float
    """Seconds of a training step, divided by its images."""


def time_training(load: Workload, device: str) -> Speed:
    """Time a training on a few random images and one on more; the difference is what more images take.

    Args:
        load: model, inputs and training settings.
        device: `cpu` or `cuda`.

    Raises:
        ConfigError: the images are too small for the model.
        RunError: the model cannot be trained like this.
    """
    stack = range(load.training.stacked)
    sets = {size: _draw_random_set(load, size) for size in (FEW_IMAGES, MORE_IMAGES, MANY_IMAGES)}
    clients = {size: [at * len(stack) + client for client in stack] for at, size in enumerate(sets)}
    setup = Setup(
        model=load.model,
        num_classes=NUM_CLASSES if load.model in AUTOENCODERS else load.num_classes,
        training=load.training.model_copy(update={"normalise": "none"}),
        seed=0,
        clients=tuple(
            ClientData(client, sets[size], sets[size]) for size in sets for client in clients[size]
        ),
        server_set=sets[FEW_IMAGES],
        server_parts={},
        plugins=load.plugins,
    )
    worker = ClientWorker(setup, device)
    # The values of the weights do not change the time.
    model = np.zeros(build_layout(load.model, load.inputs, load.num_classes).size, np.float32)
    # An autoencoder has no classes to predict: it is trained to reproduce its input.
    rule = Reconstruction() if load.model in AUTOENCODERS else PLAIN
    # The clock of a process leaves out the work of others, but also the work of a GPU.
    clock = process_time if device == "cpu" else perf_counter

    def time_client(size: int) -> float:
        """Time a training with this many images; for a stack, the share of one client."""
        tasks = [TrainTask(Order(client, (0,), rule=rule), 0, evaluate=False) for client in clients[size]]
        begun = clock()
        worker.train(tasks, [model], {})
        return (clock() - begun) / len(stack)

    time_client(FEW_IMAGES)  # Not counted: libraries start in it.
    few = time_client(FEW_IMAGES)
    more = MANY_IMAGES if few < SHORT_SECONDS else MORE_IMAGES
    longer = time_client(more)
    if longer <= few:
        # Other work on the machine disturbed one of them: all of the time is attributed to steps.
        return Speed(0.0, longer / more)
    image = (longer - few) / (more - FEW_IMAGES)
    return Speed(max(0.0, few - FEW_IMAGES * image), image)


def _draw_random_set(load: Workload, size: int) -> ImageSet:
    """Draw random images for the timed training."""
    images = draw_examples(load.inputs, size, np.random.default_rng(0))
    return ImageSet(images, np.zeros(size, np.int64), vocabulary=load.inputs.vocabulary)


def estimate_run_seconds(
    config: RunConfig, images: ImageCounts, speed: Speed, rounds: int, actors: int = 1
) -> float:
    """Estimate the seconds of one core or GPU that a run's last `rounds` rounds take without a round cache.

    Args:
        config: the run.
        images: its expected images.
        speed: the measured speed of its model.
        rounds: number of rounds left.
        actors: number of client actors; default 1.
    """
    sampled_share = config.participation * (1 - config.dropout)
    training = sampled_share * (
        count_images_trained(config, images) * speed.seconds_per_image
        + config.clients * speed.seconds_per_turn
    )
    tests = count_test_passes(config, images, rounds, actors) * speed.seconds_per_image * FORWARD_SHARE
    return rounds * (training + SERVER_SECONDS) + tests


@dataclass(frozen=True)
class EncoderPlan:
    """The training of one encoder before the first round."""

    workload: Workload
    public_images: float
    """Number of images that the server passes through the encoder on one core or GPU, counted in every epoch.
    """
    federated_images: float
    """Number of images that its clients pass through it, all together, on all cores or GPUs."""
    public: str = ""
    """Data set on which the server trains it, if it is a data set of its own; default: none."""


def plan_encoders(left: RoundsLeft, dataset: Dataset, data_dir: Path) -> list[EncoderPlan]:
    """Plan the encoders of those runs of a data set that have not begun, each of them once.

    A public encoder is the same for all runs, a federated one for those that share a scenario and seed.
    """
    plans = {}
    for run, rounds in left:
        message = build_algorithm(run).message() if rounds == run.training.rounds else None
        settings = None if message is None else message.encoder
        if settings is None or choose_kind(settings, dataset.inputs.shape) in ("pca", "pixels"):
            continue
        public = "" if settings.public in (None, REFERENCE) else str(settings.public)
        images = find_dataset(public, data_dir).pool_size if public else 0
        if settings.public == REFERENCE:
            images = run.split.reference_images or 0
        rounds_of_clients = settings.federated * settings.participation * settings.local_epochs
        training = LocalTraining(batch_size=settings.batch_size, optimizer="adam", **NEUTRAL_SETTINGS)
        model = format_model_name(choose_kind(settings, dataset.inputs.shape))
        # Runs of other scenarios and seeds have other clients, which matters only if clients train the
        # encoder.
        key = settings.model_dump_json(), run.shared_prefix if settings.federated else ""
        plans[key] = EncoderPlan(
            Workload(model, dataset.inputs, dataset.num_classes, training),
            images * settings.epochs,
            rounds_of_clients * estimate_images(run, dataset).train,
            public,
        )
    return list(plans.values())


@dataclass(frozen=True)
class Estimator:
    """Estimates the hours of runs, with all nodes at work on them; times each model once."""

    data_dir: Path
    device: str
    """Device on which models are timed, `cpu` or `cuda`."""
    capacities: Mapping[int, Capacity]
    """Number of clients -> how such runs fit."""
    _speeds: dict[Workload, Speed] = field(default_factory=dict)
    """Workload, with its number of classes set to 0 since that changes no time -> speed."""

    def estimate_hours(self, left: RoundsLeft, encoders: Sequence[EncoderPlan]) -> float:
        """Estimate the hours of runs and of the encoders before them.

        Raises:
            ConfigError, RunError: as `time_training`.
        """
        most = max(capacity.workers for capacity in self.capacities.values())
        seconds = 0.0
        for plan in encoders:
            images = plan.public_images + plan.federated_images / most
            seconds += images * self.measure_speed(plan.workload).seconds_per_image
        for run, rounds in left:
            images_of_run = estimate_images(run, find_dataset(run.dataset, self.data_dir))
            place, speed = self.capacities[run.clients], self.measure_speed(find_workload(run, self.data_dir))
            actors = place.placement.num_actors
            # All nodes work on these runs: the seconds of one core are divided among the cores that such runs
            # keep busy.
            seconds += estimate_run_seconds(run, images_of_run, speed, rounds, actors) / place.workers
        return seconds / 3600

    def measure_speed(self, load: Workload) -> Speed:
        """Measure the speed of a workload, once.

        Raises:
            ConfigError, RunError: as `time_training`.
        """
        key = replace(load, num_classes=0)
        if key not in self._speeds:
            self._speeds[key] = time_training(load, self.device)
        return self._speeds[key]
