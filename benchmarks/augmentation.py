"""Local training with random crops and flips, and with normalised pixels, over training without.

    python -m benchmarks.augmentation

One client with 512 random images, one epoch of SGD, one thread, the sides in turn. Prints the medians of the
ratios of their seconds.
"""

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from fedgrid.engine.federation.clients.process import fixed_numerics
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.models.flat_vectors import FlatModule, blank, initial_vector
from fedgrid.engine.federation.models.normalisation import Normalised
from fedgrid.engine.federation.training.local import train
from fedgrid.engine.federation.training.settings import LocalTraining

IMAGES, REPEATS = 512, 9
CASES = (
    ("lenet5", (1, 28, 28), 10),
    ("lenet5", (3, 32, 32), 10),
    ("tinyvgg", (1, 28, 28), 32),
    ("digitnet", (1, 8, 8), 32),
)


def side(
    model: str, shape: tuple[int, int, int], batch_size: int, *, augment: bool, normalise: bool
) -> Callable[[], object]:
    """Return a function that trains the model for an epoch."""
    module = blank(model, Inputs("pixels", shape), 10)
    if normalise:
        channels = shape[0]
        module = Normalised(module, [0.3] * channels, [0.2] * channels, "cpu")
    flat, start = FlatModule(module), initial_vector(model, Inputs("pixels", shape), 10, seed=0)
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(0, 256, (IMAGES, *shape[1:], shape[0])).astype(np.uint8))
    labels = torch.from_numpy(rng.integers(0, 10, IMAGES))
    training = LocalTraining(
        local_epochs=1,
        batch_size=batch_size,
        optimizer="sgd",
        learning_rate=0.01,
        augment=("crop", "flip") if augment else (),
    )
    return lambda: train(flat, start, pixels.permute(0, 3, 1, 2), labels, training, np.random.default_rng(1))


def main() -> None:
    """Time each case."""
    for model, shape, batch_size in CASES:
        given = model, shape, batch_size
        sides = [
            side(*given, augment=False, normalise=False),
            side(*given, augment=True, normalise=False),
            side(*given, augment=False, normalise=True),
        ]
        times: list[list[float]] = [[], [], []]
        with fixed_numerics(tf32=False):
            for _ in range(1 + REPEATS):
                for run, seconds in zip(sides, times, strict=True):
                    start = time.process_time()
                    run()
                    seconds.append(time.process_time() - start)
        augmented, normalised = (
            statistics.median(one / plain for one, plain in zip(seconds[1:], times[0][1:], strict=True))
            for seconds in times[1:]
        )
        size = "x".join(map(str, shape))
        print(
            f"{model} {size}, batch {batch_size}: {IMAGES / statistics.median(times[0]):,.0f} images/s, "
            f"crop and flip take {augmented:.3f}, normalising {normalised:.3f} of that time"
        )


if __name__ == "__main__":
    main()
