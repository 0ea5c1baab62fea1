"""Local training and tests in bfloat16 over the same in float32.

    python -m benchmarks.precision

One client's random images, an epoch of SGD with batches of 32 and then a test of as many, one thread, the two
precisions in turn. Prints images per second of processor time, and the medians of the ratios. Before that:
what the processor has for bfloat16, on which the ratio depends more than on anything else.
"""

import statistics
import time
from collections.abc import Callable
from typing import get_args

import numpy as np
import torch

from fedgrid.engine.federation.clients.process import fixed_numerics
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.models.flat_vectors import FlatModule, blank, initial_vector
from fedgrid.engine.federation.models.normalisation import MixedPrecision
from fedgrid.engine.federation.training.evaluation import TEST_BATCH, test
from fedgrid.engine.federation.training.local import train
from fedgrid.engine.federation.training.settings import LocalTraining, Precision
from fedgrid.engine.runtime.clients.machine import BFLOAT16, this_machine

CASES = (
    ("digitnet", (1, 8, 8), 4096, 9),
    ("tinyvgg", (1, 28, 28), 512, 9),
    ("tinyvgg", (3, 32, 32), 512, 9),
    ("resnet34", (3, 32, 32), 64, 3),
)
"""Model, shape of an image, number of images, and of repetitions."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
SETTINGS = LocalTraining(local_epochs=1, batch_size=32, optimizer="sgd", learning_rate=0.01)

Work = Callable[[], object]


def sides(
    model: str,
    shape: tuple[int, int, int],
    num_images: int,
    precision: Precision,
) -> tuple[Work, Work]:
    """Return two functions: one trains the model for an epoch, the other tests it."""
    module = blank(model, Inputs("pixels", shape), 10)
    flat = FlatModule(MixedPrecision(module, "cpu") if precision == BFLOAT16 else module)
    start = initial_vector(model, Inputs("pixels", shape), 10, seed=0)
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(0, 256, (num_images, *shape[1:], shape[0])).astype(np.uint8))
    images, labels = pixels.permute(0, 3, 1, 2), torch.from_numpy(rng.integers(0, 10, num_images))
    return (
        lambda: train(flat, start, images, labels, SETTINGS, np.random.default_rng(1)),
        lambda: test(flat.module, images, labels, 10, TEST_BATCH),
    )


def seconds_in_turns(works: list[Work], repeats: int) -> list[list[float]]:
    """Return processor seconds, a list for each work; the first turn of each is not counted."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(1 + repeats):
        for work, seconds in zip(works, times, strict=True):
            start = time.process_time()
            work()
            if turn:
                seconds.append(time.process_time() - start)
    return times


def main() -> None:
    """Time each case."""
    print(f"bfloat16 on this processor: {this_machine('cpu')[BFLOAT16]}")
    for model, shape, num_images, repeats in CASES:
        pairs = [sides(model, shape, num_images, precision) for precision in PRECISIONS]
        size = "x".join(map(str, shape))
        for what, works in zip(("training", "tests"), zip(*pairs, strict=True), strict=True):
            with fixed_numerics(tf32=False):
                wide, narrow = seconds_in_turns(list(works), repeats)
            ratio = statistics.median(one / other for one, other in zip(wide, narrow, strict=True))
            speeds = " and ".join(
                f"{num_images / statistics.median(seconds):,.0f}" for seconds in (wide, narrow)
            )
            print(f"{model} {size}, {what}: {speeds} images/s in float32 and bfloat16: {ratio:.2f} times")


if __name__ == "__main__":
    main()
