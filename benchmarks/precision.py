"""Compare local training and tests in bfloat16 with the same in float32.

    python -m benchmarks.precision [--quick]

One client's random images, an epoch of SGD with batches of 32 and then a test of as many, one thread, the two
precisions in turn. Prints images per second of processor time, and the medians of the ratios. Before that:
what the processor has for bfloat16, on which the ratio depends more than on anything else.
"""

import statistics
from collections.abc import Sequence
from typing import get_args

import numpy as np
from torch import nn

from benchmarks.options import build_parser
from benchmarks.training import (
    CLASSES,
    Shape,
    Work,
    build_flat_model,
    compute_median_ratio,
    make_images,
    time_in_turns,
)
from fedgrid.engine.federation.models.normalisation import MixedPrecision
from fedgrid.engine.federation.training.evaluation import TEST_BATCH, evaluate_model
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import LocalTraining, Precision
from fedgrid.engine.runtime.clients.machine import BFLOAT16, describe_machine

CASES = (
    ("digitnet", (1, 8, 8), 4096, 9),
    ("tinyvgg", (1, 28, 28), 512, 9),
    ("tinyvgg", (3, 32, 32), 512, 9),
    ("resnet34", (3, 32, 32), 64, 3),
)
"""Model, shape of an image, number of images, and of repetitions."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
SETTINGS = LocalTraining(local_epochs=1, batch_size=32, optimizer="sgd", learning_rate=0.01)


def build_works(model: str, shape: Shape, num_images: int, precision: Precision) -> tuple[Work, Work]:
    """Build two functions: one trains the model for an epoch, the other tests it.

    Args:
        model: name of a model.
        shape: channels, height and width of an image.
        num_images: images of the client.
        precision: of both.
    """

    def wrap_module(module: nn.Module) -> nn.Module:
        return MixedPrecision(module, "cpu") if precision == BFLOAT16 else module

    flat, start = build_flat_model(model, shape, wrap_module)
    images, labels = make_images(shape, num_images)
    return (
        lambda: train_client(flat, start, images, labels, SETTINGS, np.random.default_rng(1)),
        lambda: evaluate_model(flat.module, images, labels, CLASSES, TEST_BATCH),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Time each case, the two precisions in turn."""
    parser = build_parser(__doc__, "the first case, once")
    quick: bool = parser.parse_args(arguments).quick
    print(f"bfloat16 on this processor: {describe_machine('cpu')[BFLOAT16]}")
    for model, shape, num_images, repeats in CASES[:1] if quick else CASES:
        pairs = [build_works(model, shape, num_images, precision) for precision in PRECISIONS]
        size = "x".join(map(str, shape))
        for what, works in zip(("training", "tests"), zip(*pairs, strict=True), strict=True):
            wide, narrow = time_in_turns(works, 1 if quick else repeats)
            speeds = " and ".join(
                f"{num_images / statistics.median(seconds):,.0f}" for seconds in (wide, narrow)
            )
            print(
                f"{model} {size}, {what}: {speeds} images/s in float32 and bfloat16: "
                f"{compute_median_ratio(wide, narrow):.2f} times"
            )


if __name__ == "__main__":
    main()
