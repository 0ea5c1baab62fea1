"""Estimate how long runs take: time training and testing on random images here, then scale up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from platform import machine, processor
from time import perf_counter, process_time
from typing import TYPE_CHECKING

import numpy as np

from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import EvaluateTask, TrainTask
from fedgrid.engine.federation.encoders.encoder import Reconstruction
from fedgrid.engine.federation.models.flat_vectors import layout
from fedgrid.engine.federation.models.registry import AUTOENCODERS
from fedgrid.grids.planning.images import Images, images_trained, passes
from fedgrid.grids.planning.workload import Workload, worker_of

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig

BUDGET, GPU_BUDGET = 2.0, 20.0
"""Seconds of the processor, and of a GPU's clock, for all measurements; two sizes are timed in any case."""
LONGEST = 60.0
"""Seconds that they may take on a machine with other work."""
ENOUGH = 0.1
"""Seconds after which the time of more images is known."""
BURSTS = 4
"""How often each measurement is repeated, if there is time."""
FEWEST, GROWTH = 2, 4
"""Images of the first measurement, and how many times as many each one has as the one before. Beyond one
image the time of a large model is that of a step and of its images, also in a small part of a batch."""
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
    workloads: Sequence[Workload], device: str = "cpu", budget: float | None = None
) -> dict[Workload, Speed]:
    """Time training and testing of each workload on the device `cpu` or `cuda`.

    Workloads that differ in the number of classes alone are taken to be as fast. `budget` are seconds for all
    of them together, on a CPU the processor's; None: `BUDGET` or `GPU_BUDGET`.

    Raises:
        ConfigError: if the images are too small for the model.
        RunError: if the model cannot be trained like this.
    """
    if budget is None:
        budget = BUDGET if device == "cpu" else GPU_BUDGET
    clock = _clock(device)
    end, latest = clock() + budget, perf_counter() + max(budget, LONGEST)
    kinds = {replace(workload, num_classes=0): workload for workload in workloads}
    speeds: dict[Workload, Speed] = {}
    for kind, workload in kinds.items():
        left = min(end - clock(), latest - perf_counter())
        speeds[kind] = _measure(workload, device, left / (len(kinds) - len(speeds)))
    return {workload: speeds[replace(workload, num_classes=0)] for workload in workloads}


def run_seconds(config: RunConfig, images: Images, speed: Speed, rounds: int, actors: int = 1) -> float:
    """Return the seconds of one core or GPU that a run's last `rounds` rounds, on `actors` of clients, take.

    Without a round cache.
    """
    asked = config.participation * (1 - config.dropout)
    training = asked * images_trained(config, images) * speed.train
    tests = passes(config, images, rounds, actors) * speed.test
    return rounds * (training + asked * config.clients * speed.turn + SERVER_SECONDS) + tests


def _measure(workload: Workload, device: str, budget: float) -> Speed:
    """Time a worker whose clients hold 2, 8, 32, ... images for at most `budget` seconds, but two sizes."""
    clock = _clock(device)
    started, slots = clock(), workload.training.stacked
    most = min(MOST_IMAGES, MOST_BYTES // prod(workload.inputs.shape)) // slots
    sizes = [FEWEST, FEWEST * GROWTH]
    while GROWTH * sizes[-1] <= most:
        sizes.append(GROWTH * sizes[-1])
    worker = worker_of(workload, sizes, device)
    # Its values change no time, and zeros take no memory.
    model = np.zeros(layout(workload.model, workload.inputs, workload.num_classes).size, np.float32)
    is_encoder = workload.model in AUTOENCODERS
    rule = Reconstruction() if is_encoder else PLAIN

    def train(stack: int) -> None:
        clients = range(stack * slots, (stack + 1) * slots)
        orders = [Order(client, (0,), rule=rule) for client in clients]
        worker.train([TrainTask(order, 0, evaluate=False) for order in orders], [model], {})

    def test(stack: int) -> None:
        worker.evaluate([EvaluateTask(stack * slots, 0)], [model])

    if device != "cpu":
        train(0)  # The first call takes seconds.
    # Training first, with three quarters of the budget: most of a run's time is training.
    trained = _times(train, clock, sizes, started + 0.75 * budget)
    train_turn, train_image = (seconds / slots for seconds in fit_line(trained))
    if trained[-1][0] < workload.training.batch_size:
        # Of more images each batch has what one step takes, at most the fixed cost.
        train_image += train_turn / workload.training.batch_size
    if is_encoder:  # It is not tested.
        return Speed(train_turn, train_image, 0.0)
    test_turn, test_image = fit_line(_times(test, clock, sizes, started + budget))
    return Speed(train_turn + test_turn, train_image, test_image)


def _times(
    work: Callable[[int], None], clock: Callable[[], float], sizes: Sequence[int], end: float
) -> list[tuple[int, float]]:
    """Return (images, seconds) of two clients or stacks, and of others until `ENOUGH` or the `clock`'s `end`.

    Images are those of each client. Each is timed `BURSTS` times, and its least time counts: other work on
    the machine, or another virtual one on its processor, makes a burst longer and never shorter.
    """
    least: dict[int, float] = {}
    # The first client twice: libraries initialise in the first call, which is a small part of a long one.
    for client in (0, *range(len(sizes))):
        if least.get(sizes[client], 0.0) > ENOUGH:
            continue
        begin = clock()
        work(client)
        least[sizes[client]] = taken = clock() - begin
        if client > 0 and (taken > ENOUGH or clock() + GROWTH * taken > end):
            break
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
