"""How long runs take, roughly: training and testing of random images is timed here and multiplied out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from time import perf_counter, process_time
from typing import Literal

import numpy as np

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.clients.messages import ClientData, EvaluateTask, Setup, TrainTask
from fedgrid.engine.clients.worker import ClientWorker
from fedgrid.engine.data.datasets import Dataset
from fedgrid.engine.data.images import ImageSet
from fedgrid.engine.models.initialisation import initial_vector
from fedgrid.engine.partition.deal import class_shares, draws_per_client, sizes_of
from fedgrid.engine.partition.majority import images_per_client
from fedgrid.engine.partition.scenarios import Scenario
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.training.evaluation import TEST_BATCH
from fedgrid.engine.training.settings import LocalTraining

BUDGET = 20.0
"""Seconds that all measurements together may take."""

ENOUGH = 0.5
"""Seconds that a measurement with a whole batch need not exceed."""

SERVER_SECONDS = 0.05
"""A round's clustering, records and files: little, but all there is to a round of small models."""

NUM_CLASSES = 10
MOST_IMAGES, MOST_BYTES = 4096, 1 << 26

SERVER_IMAGES = {
    "digits": 355,
    "mnist": 10_000,
    "fmnist": 10_000,
    "cifar10": 10_000,
    "pathmnist": 7_180,
    "bloodmnist": 3_421,
}
"""Images of the official test sets, which need not be here; elsewhere a fifth of the pool is taken."""


@dataclass(frozen=True)
class Workload:
    """What the time that an image takes depends on, on a given machine."""

    model: str
    shape: tuple[int, int, int]
    """Channels, height, width of an image."""
    batch_size: int
    optimizer: Literal["sgd", "adam"]

    @classmethod
    def of(cls, config: RunConfig, dataset: Dataset) -> "Workload":
        """Return the workload of a run."""
        return cls(config.model, dataset.shape, config.training.batch_size, config.training.optimizer)


@dataclass(frozen=True)
class Speed:
    """Seconds on one core, or on a GPU that nobody else uses."""

    turn: float
    """A client's turn, whatever its images: taking the model over and handing it back."""
    train: float
    """An image, in one epoch."""
    test: float
    """An image."""


@dataclass(frozen=True)
class Images:
    """Images of all clients of a run together, as expected before they are drawn, and of the server."""

    train: float
    test: float
    server: int


def calibrate(
    workloads: Sequence[Workload], device: str = "cpu", budget: float = BUDGET
) -> dict[Workload, Speed]:
    """Train and test with each workload for a short time, as a client does; at least one batch each.

    Raises:
        ConfigError: the images are too small for the model.
        RunError: the model cannot be trained like this.
    """
    speeds: dict[Workload, Speed] = {}
    end = perf_counter() + budget
    for workload in workloads:
        share = (end - perf_counter()) / (len(workloads) - len(speeds))
        speeds[workload] = _measure(workload, device, share)
    return speeds


def expected_images(config: RunConfig, dataset: Dataset) -> Images:
    """Return how many images a run has, taking the classes of the pool for equally large.

    Of N images of a class, d draws that fall on it with probability p leave N (1 - (1 - p / N)^d).

    Raises:
        ConfigError: a split that the data set cannot carry.
    """
    split, counts_L = config.split, [dataset.pool_size // dataset.num_classes] * dataset.num_classes
    if config.overlap == "majority":
        held = float(config.clients * images_per_client(counts_L, config.clients, split))
    else:
        held = _expected_draws(config, dataset, counts_L)
    server = split.server_images or SERVER_IMAGES.get(dataset.name, dataset.pool_size // 5)
    if split.scored_on == "validation":
        held *= 1 - split.test_share
    return Images(held * (1 - split.test_share), held * split.test_share, server)


def _expected_draws(config: RunConfig, dataset: Dataset, counts_L: Sequence[int]) -> float:
    split = config.split
    scenario = Scenario(config.dataset.partition(":")[0], config.overlap, config.balance, config.clients)
    of_class = dataset.pool_size / dataset.num_classes
    draws = draws_per_client(dataset.pool_size, config.clients, split.draws)
    shares_C = class_shares(scenario, counts_L, split, config.seed)
    return sum(
        size * float((of_class * (1 - (1 - shares / of_class) ** draws)).sum())
        for size, shares in zip(sizes_of(scenario, split.num_clusters), shares_C, strict=True)
    )


def run_seconds(config: RunConfig, images: Images, speed: Speed, rounds: int) -> float:
    """Return what `rounds` rounds of a run take one core, or one GPU.

    Every client trains; the local model is tested on its test set and on the server's, its cluster's model
    on its test set, and every cluster's model on the server's, once.
    """
    tests = 2 * images.test + (config.clients + config.split.num_clusters) * images.server
    training = config.clients * speed.turn + config.training.local_epochs * images.train * speed.train
    return rounds * (training + tests * speed.test / config.evaluation.every + SERVER_SECONDS)


def _measure(workload: Workload, device: str, budget: float) -> Speed:
    """Time one host whose clients hold 2, 4, 8, ... images, as many as there is time for."""
    started = perf_counter()
    most = min(MOST_IMAGES, max(2, MOST_BYTES // prod(workload.shape)))
    sizes = [2**power for power in range(1, most.bit_length())]
    worker = _worker(workload, sizes, device)
    model = initial_vector(workload.model, workload.shape, NUM_CLASSES, 0)

    def train(client: int) -> None:
        worker.train([TrainTask(Order(client, (0,)), 0, evaluate=False)], [model], {})

    def test(client: int) -> None:
        worker.evaluate([EvaluateTask(client, 0)], [model])

    # What else a core is busy with does not count; a GPU's work is none of the process's own.
    clock = process_time if device == "cpu" else perf_counter
    batch = workload.batch_size
    # Training first, with three quarters of the time: it is where a run's time goes.
    train_turn, train_image = line(_times(train, clock, sizes, batch, started + 0.75 * budget))
    test_turn, test_image = line(_times(test, clock, sizes, TEST_BATCH, started + budget))
    return Speed(train_turn + test_turn, train_image, test_image)


def _times(
    work: Callable[[int], None], clock: Callable[[], float], sizes: Sequence[int], batch: int, end: float
) -> list[tuple[int, float]]:
    """Return (images, seconds) of one client after the other, until enough is known or the time is up."""
    times: list[tuple[int, float]] = []
    # The first client twice: libraries set themselves up at the first call, which counts only if need be.
    for client in (0, *range(len(sizes))):
        started, begin = perf_counter(), clock()
        work(client)
        times.append((sizes[client], clock() - begin))
        taken = perf_counter() - started
        if (taken > ENOUGH and sizes[client] >= batch) or perf_counter() + 2.5 * taken > end:
            break
    return times[1:] or times


def line(times: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return seconds whatever the images, and seconds an image, from (images, seconds) of growing size."""
    (few, first), (many, last) = times[0], times[-1]
    if last <= first or many == few:
        return 0.0, last / many
    image = (last - first) / (many - few)
    return max(0.0, first - few * image), image


def _worker(workload: Workload, sizes: Sequence[int], device: str) -> ClientWorker:
    rng = np.random.default_rng(0)
    pool = ImageSet(
        rng.integers(0, 256, (sizes[-1], *workload.shape), dtype=np.uint8),
        rng.integers(0, NUM_CLASSES, sizes[-1]),
    )
    sets = [pool.take(slice(0, size)) for size in sizes]
    training = LocalTraining(
        local_epochs=1,
        batch_size=workload.batch_size,
        optimizer=workload.optimizer,
        learning_rate=1e-6,
    )
    setup = Setup(
        model=workload.model,
        num_classes=NUM_CLASSES,
        training=training,
        seed=0,
        clients=tuple(ClientData(client, held, held) for client, held in enumerate(sets)),
        server_set=pool.take(slice(0, 1)),
        server_parts={client: slice(0, 0) for client in range(len(sizes))},
    )
    return ClientWorker(setup, device)
