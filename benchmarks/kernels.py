"""Training and tests with `training.kernels: auto`, and in bfloat16, over float32 with torch's convolutions.

    python -m benchmarks.kernels

As `benchmarks.precision`: one thread, processor time, the sides in turn in one process. Prints images per
second of the library in float32, and for each other side the median ratio to it.
"""

import statistics

from benchmarks.precision import seconds_in_turns, sides
from fedgrid.engine.clients.machine import fixed_numerics
from fedgrid.engine.training.settings import Kernels, Precision

CASES = (
    ("tinyvgg", (3, 32, 32), 256, 5),
    ("resnet9", (3, 32, 32), 64, 5),
    ("resnet34", (1, 28, 28), 64, 3),
    ("resnet34", (3, 32, 32), 64, 3),
)
"""Model, shape of an image, number of images, and of repetitions."""
SIDES: tuple[tuple[Precision, Kernels], ...] = (
    ("float32", "library"),
    ("float32", "auto"),
    ("bfloat16", "library"),
)


def main() -> None:
    """Time each case."""
    for model, shape, num_images, repeats in CASES:
        pairs = [sides(model, shape, num_images, *side) for side in SIDES]
        size = "x".join(map(str, shape))
        for what, works in zip(("training", "tests"), zip(*pairs, strict=True), strict=True):
            with fixed_numerics(tf32=False):
                usual, *others = seconds_in_turns(list(works), repeats)
            ratios = [
                statistics.median(one / other for one, other in zip(usual, seconds, strict=True))
                for seconds in others
            ]
            print(
                f"{model} {size}, {what}: {num_images / statistics.median(usual):,.0f} images/s; "
                + "; ".join(
                    f"{precision} {kernels} {ratio:.2f} times"
                    for (precision, kernels), ratio in zip(SIDES[1:], ratios, strict=True)
                )
            )


if __name__ == "__main__":
    main()
