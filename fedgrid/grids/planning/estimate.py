"""The hours of a grid's runs, from one timed training step a model and what earlier rounds took."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
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
from fedgrid.engine.runtime.data.datasets import find
from fedgrid.engine.runtime.plugins.algorithm_of import algorithm_of
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.grids.planning.capacity import Capacity, RoundsLeft
from fedgrid.grids.planning.images import Images, expected_images, images_trained, passes
from fedgrid.grids.planning.workload import SAME, Workload, workload_of
from fedgrid.grids.results.times import times_of

Capacities = Mapping[int, Capacity]
"""By number of clients."""
FEWEST, MOST = 2, 32
"""Images of a training in which libraries start, and at most of the timed step on a CPU: the time of a larger
batch is taken to grow with it."""
SHORT, REPEATS = 0.1, 10
"""A step of fewer seconds is timed this many times in a row."""
FORWARD = 1 / 3
"""The time of a test, as a share of a training step's: the backward pass takes twice the forward pass."""
SERVER_SECONDS = 0.05
"""Clustering, records and files of a round: a small part, except with the smallest models."""


@dataclass(frozen=True)
class Speed:
    """Seconds on one core, or on a GPU without other load."""

    turn: float
    """A client's turn in a round, beside its steps: loading the model and returning it."""
    image: float
    """A training step, an image."""


@cache
def speed_of(load: Workload, device: str) -> Speed:
    """Time one training step of a workload on the device `cpu` or `cuda`, on random images.

    A client trains for one step, then for two: the difference is a step.

    Raises:
        ConfigError: the images are too small for the model.
        RunError: the model cannot be trained like this.
    """
    size = load.training.batch_size if device != "cpu" else min(load.training.batch_size, MOST)
    _training_seconds(load, device, FEWEST, 1)
    one = _training_seconds(load, device, size, 1)
    steps = REPEATS if one < SHORT else 1
    more = _training_seconds(load, device, size, 1 + steps)
    if more <= one:
        # Other work on the machine: all of it is taken for steps.
        return Speed(0.0, more / (1 + steps) / size)
    step = (more - one) / steps
    return Speed(max(0.0, one - step), step / size)


def _training_seconds(load: Workload, device: str, size: int, steps: int) -> float:
    """Return the seconds in which a client trains on a batch of `size` images; of a stack, its share."""
    images = random_examples(load.inputs, size, np.random.default_rng(0))
    held = ImageSet(images, np.zeros(size, np.int64), vocabulary=load.inputs.vocabulary)
    own = {"batch_size": size, "local_epochs": steps, "normalise": "none"}
    clients = range(load.training.stacked)
    setup = Setup(
        model=load.model,
        num_classes=load.num_classes,
        training=load.training.model_copy(update=own),
        seed=0,
        clients=tuple(ClientData(client, held, held) for client in clients),
        server_set=held,
        server_parts={},
        plugins=load.plugins,
    )
    worker = ClientWorker(setup, device)
    # Its values change no time.
    model = np.zeros(layout(load.model, load.inputs, load.num_classes).size, np.float32)
    rule = Reconstruction() if load.model in AUTOENCODERS else PLAIN
    tasks = [TrainTask(Order(client, (0,), rule=rule), 0, evaluate=False) for client in clients]
    # A CPU's clock leaves other processes out, but has no GPU's work.
    clock = process_time if device == "cpu" else perf_counter
    begun = clock()
    worker.train(tasks, [model], {})
    return (clock() - begun) / len(clients)


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
    """How many images the server passes through it, counted in every epoch."""
    federated_images: float
    """How many its clients do, all together."""
    public: str = ""
    """The data set that the server trains it on, if that is one of its own."""

    def seconds(self, device: str, workers: int) -> float:
        """Return how long it takes: the server's training on one core or GPU, the clients' on this many."""
        images = self.public_images + self.federated_images / workers
        return images * speed_of(self.workload, device).image


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


def hours_of(
    left: RoundsLeft, encoders: Sequence[EncoderPlan], data_dir: Path, device: str, capacities: Capacities
) -> float:
    """Return the hours of runs and encoders, with all nodes at work on them; raises as `speed_of`."""
    most = max(capacity.workers for capacity in capacities.values())
    seconds = sum(plan.seconds(device, most) for plan in encoders)
    for run, rounds in left:
        place = capacities[run.clients]
        seconds += _seconds_placed(run, rounds, data_dir, device, place) / place.workers
    return seconds / 3600


def experience(
    left: RoundsLeft, data_dir: Path, storage: Path, device: str, capacities: Capacities
) -> tuple[int, float]:
    """Return how many begun runs have recorded rounds, and how many times their estimate these took.

    Without the round cache. The placement of a run is taken for the one that it would have now.
    """
    runs, took, estimated = 0, 0.0, 0.0
    for run, rounds in left:
        with suppress(DamagedFile):  # The launch says so.
            times, last = times_of(folder_of(storage, run)), run.training.rounds
            if times.rounds and rounds < last:
                place = capacities[run.clients]
                whole = _seconds_placed(run, last, data_dir, device, place)
                runs += 1
                took += times.uncached_seconds
                estimated += whole * times.rounds / last / min(place.placement.num_actors, place.workers)
    return runs, took / estimated if estimated else 1.0


def _seconds_placed(run: RunConfig, rounds: int, data_dir: Path, device: str, place: Capacity) -> float:
    images = expected_images(run, find(run.dataset, data_dir))
    speed = speed_of(workload_of(run, data_dir), device)
    return run_seconds(run, images, speed, rounds, place.placement.num_actors)
