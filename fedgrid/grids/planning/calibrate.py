"""Estimate how long runs take: time training and testing on random images here, then scale up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from platform import machine, processor
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import EvaluateTask, TrainTask
from fedgrid.engine.federation.encoders.encoder import Reconstruction
from fedgrid.engine.federation.models.flat_vectors import initial_vector
from fedgrid.engine.federation.models.registry import AUTOENCODERS
from fedgrid.engine.federation.training.evaluation import TEST_BATCH
from fedgrid.grids.planning.images import Images, images_trained, passes
from fedgrid.grids.planning.workload import Workload, worker_of

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig

BUDGET = 20.0
"""Seconds of the processor that all measurements together may take, and of a GPU's clock."""
LONGEST = 60.0
"""Seconds that they may take on a machine with other work."""
ENOUGH = 0.5
"""Seconds after which a measurement ends, once it has timed a whole batch."""
BURSTS = 4
"""How often each measurement is repeated, if there is time."""
GROWTH = 4.5
"""A measurement takes up to this many times the one before."""
SERVER_SECONDS = 0.05
"""Clustering, records and files of a round: a small part, except with the smallest models."""
MOST_IMAGES, MOST_BYTES = 4096, 1 << 26
CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Speed:
    """Seconds on one core, or on a GPU without other load."""

    turn: float
    """Fixed cost of a client's turn, whatever its number of images: loading the model and returning it."""
    train: float
    """Training, an image and epoch."""
    test: float
    """Testing, an image."""


def processor_name(device: str) -> str:
    """Return the name of this machine's processor, or GPU."""
    if device != "cpu":
        import torch

        return torch.cuda.get_device_name()
    with suppress(OSError):
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return processor() or machine()


def calibrate(
    workloads: Sequence[Workload], device: str = "cpu", budget: float = BUDGET
) -> dict[Workload, Speed]:
    """Time training and testing of each workload, at least one batch each, on the device `cpu` or `cuda`.

    `budget` are seconds for all of them together, on a CPU the processor's.

    Raises:
        ConfigError: if the images are too small for the model.
        RunError: if the model cannot be trained like this.
    """
    speeds: dict[Workload, Speed] = {}
    clock = _clock(device)
    end, latest = clock() + budget, perf_counter() + max(budget, LONGEST)
    for workload in workloads:
        left = min(end - clock(), latest - perf_counter())
        speeds[workload] = _measure(workload, device, left / (len(workloads) - len(speeds)))
    return speeds


def run_seconds(config: RunConfig, images: Images, speed: Speed, rounds: int, actors: int = 1) -> float:
    """Return the seconds of one core or GPU that a run's last `rounds` rounds, on `actors` of clients, take.

    Without a round cache.
    """
    asked = config.participation * (1 - config.dropout)
    training = asked * images_trained(config, images) * speed.train
    tests = passes(config, images, rounds, actors) * speed.test
    return rounds * (training + asked * config.clients * speed.turn + SERVER_SECONDS) + tests


def _measure(workload: Workload, device: str, budget: float) -> Speed:
    """Time a worker whose clients hold a quarter of a batch, one, 2, 4, ... for at most `budget` seconds."""
    clock = _clock(device)
    started, batch, slots = clock(), workload.training.batch_size, workload.training.stacked
    most = max(2, min(MOST_IMAGES, MOST_BYTES // prod(workload.inputs.shape)) // slots)
    sizes = [min(max(1, batch // 4), most // 2), min(batch, most)]
    while 2 * sizes[-1] <= most:
        sizes.append(2 * sizes[-1])
    worker = worker_of(workload, sizes, device)
    model = initial_vector(workload.model, workload.inputs, workload.num_classes, 0)
    is_encoder = workload.model in AUTOENCODERS
    rule = Reconstruction() if is_encoder else PLAIN

    def train(stack: int) -> None:
        clients = range(stack * slots, (stack + 1) * slots)
        orders = [Order(client, (0,), rule=rule) for client in clients]
        worker.train([TrainTask(order, 0, evaluate=False) for order in orders], [model], {})

    def test(stack: int) -> None:
        worker.evaluate([EvaluateTask(stack * slots, 0)], [model])

    # Training first, with three quarters of the budget: most of a run's time is training.
    trained = _times(train, clock, sizes, batch, started + 0.75 * budget)
    train_turn, train_image = (seconds / slots for seconds in fit_line(trained))
    if is_encoder:  # It is not tested.
        return Speed(train_turn, train_image, 0.0)
    test_turn, test_image = fit_line(_times(test, clock, sizes, TEST_BATCH, started + budget))
    return Speed(train_turn + test_turn, train_image, test_image)


def _times(
    work: Callable[[int], None], clock: Callable[[], float], sizes: Sequence[int], batch: int, end: float
) -> list[tuple[int, float]]:
    """Return (images, seconds) of one client or stack after the other, until `ENOUGH` or the `clock`'s `end`.

    Images are those of each client. Each is timed `BURSTS` times, and its least time counts: other work on
    the machine, or another virtual one on its processor, makes a burst longer and never shorter.
    """
    times: list[tuple[int, float]] = []
    # The first client twice: libraries initialise in the first call, which counts only if no other follows.
    for client in (0, *range(len(sizes))):
        begin = clock()
        work(client)
        taken = clock() - begin
        times.append((sizes[client], taken))
        if (taken > ENOUGH and sizes[client] >= batch) or clock() + GROWTH * taken > end:
            break
    least = dict(times[1:] or times)
    clients = {sizes[client]: client for client in range(len(sizes))}
    for _ in range(BURSTS - 1):
        for size in least:
            if (begin := clock()) + least[size] > end:
                break
            work(clients[size])
            least[size] = min(least[size], clock() - begin)
    return list(least.items())


def _clock(device: str) -> Callable[[], float]:
    """Return the clock to time with: a CPU's leaves other processes out, but has no GPU's work."""
    return process_time if device == "cpu" else perf_counter


def fit_line(times: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Return (fixed seconds, seconds an image), from (images, seconds) in ascending order of images."""
    (few, first), (many, last) = times[0], times[-1]
    if last <= first or many == few:
        return 0.0, last / many
    image = (last - first) / (many - few)
    return max(0.0, first - few * image), image
