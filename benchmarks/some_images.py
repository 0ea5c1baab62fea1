"""Draw some images of a data set at random, into a file that `npz:PATH` reads.

    python -m benchmarks.some_images mnist mnist-6000.npz --train 6000 --test 1150 --data DATA
    python -m benchmarks.some_images folder:cifar10 cifar10-6000.npz --train 6000 --test 1150

The same images each time.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.runtime.data.datasets import load_with_digest


def draw_images(images: ImageSet, count: int, part: str) -> dict[str, np.ndarray]:
    """Draw `count` images, in their order in the data set, and build the arrays of the file."""
    chosen = np.sort(make_generator(0, part).choice(len(images.labels), count, replace=False))
    channels_last = np.moveaxis(images.images[chosen], 1, -1)
    return {
        f"{part}_images": channels_last.squeeze(-1) if channels_last.shape[-1] == 1 else channels_last,
        f"{part}_labels": images.labels[chosen],
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("file", type=Path)
    parser.add_argument("--train", type=int, required=True)
    parser.add_argument("--test", type=int, required=True)
    parser.add_argument("--data", type=Path, default=Path("data"))
    given = parser.parse_args(arguments)
    (train, test), _ = load_with_digest(given.dataset, given.data)
    arrays: dict[str, Any] = draw_images(train, given.train, "train") | draw_images(test, given.test, "test")
    np.savez_compressed(given.file, **arrays)


if __name__ == "__main__":
    main()
