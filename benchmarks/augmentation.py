"""Compare local training with crops and flips, and with normalised pixels, with plain training.

    python -m benchmarks.augmentation [--quick]

One client with 512 random images, one epoch of SGD, one thread, the sides in turn. Prints the medians of the
ratios of their seconds.
"""

import statistics
from collections.abc import Sequence
from functools import partial

import numpy as np
from torch import nn

from benchmarks.options import build_parser
from benchmarks.training import (
    Shape,
    Work,
    build_flat_model,
    compute_median_ratio,
    make_images,
    time_in_turns,
)
from fedgrid.engine.federation.models.normalisation import Normalised
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import LocalTraining

IMAGES, REPEATS = 512, 9
CASES = (
    ("lenet5", (1, 28, 28), 10),
    ("lenet5", (3, 32, 32), 10),
    ("tinyvgg", (1, 28, 28), 32),
    ("digitnet", (1, 8, 8), 32),
)
"""Model, shape of an image, and batch size."""


def build_training(model: str, shape: Shape, batch_size: int, *, augment: bool, normalise: bool) -> Work:
    """Build a function that trains the model for an epoch.

    Args:
        model: name of a model.
        shape: channels, height and width of an image.
        batch_size: images in a batch.
        augment: whether batches are cropped and flipped.
        normalise: whether the model normalises its pixels first.
    """

    def wrap_module(module: nn.Module) -> nn.Module:
        return Normalised(module, [0.3] * shape[0], [0.2] * shape[0], "cpu") if normalise else module

    flat, start = build_flat_model(model, shape, wrap_module)
    images, labels = make_images(shape, IMAGES)
    settings = LocalTraining(
        local_epochs=1,
        batch_size=batch_size,
        optimizer="sgd",
        learning_rate=0.01,
        augment=("crop", "flip") if augment else (),
    )
    return lambda: train_client(flat, start, images, labels, settings, np.random.default_rng(1))


def main(arguments: Sequence[str] | None = None) -> None:
    """Time each case with one thread, the three sides in turn."""
    parser = build_parser(__doc__, "the last case, once")
    quick: bool = parser.parse_args(arguments).quick
    for model, shape, batch_size in CASES[-1:] if quick else CASES:
        build_side = partial(build_training, model, shape, batch_size)
        plain, augmented, normalised = time_in_turns(
            [
                build_side(augment=False, normalise=False),
                build_side(augment=True, normalise=False),
                build_side(augment=False, normalise=True),
            ],
            1 if quick else REPEATS,
        )
        size = "x".join(map(str, shape))
        print(
            f"{model} {size}, batch {batch_size}: {IMAGES / statistics.median(plain):,.0f} images/s, "
            f"crop and flip take {compute_median_ratio(augmented, plain):.3f}, "
            f"normalising {compute_median_ratio(normalised, plain):.3f} of that time"
        )


if __name__ == "__main__":
    main()
