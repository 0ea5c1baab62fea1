"""Common parts of the benchmarks of local training: random images, a model, functions timed in turns."""

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fedgrid.engine.federation.clients.process import fix_numerics
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.models.flat_vectors import FlatModule, build_blank, draw_initial_vector

CLASSES = 10
Shape = tuple[int, int, int]
"""Channels, height and width of an image."""
Work = Callable[[], object]


def make_images(shape: Shape, count: int, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Make random images, channels last in memory, and their labels; the same each time."""
    channels, height, width = shape
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(0, 256, (count, height, width, channels), dtype=np.uint8))
    labels = torch.from_numpy(rng.integers(0, CLASSES, count))
    return pixels.to(device).permute(0, 3, 1, 2), labels.to(device)


def build_flat_model(
    model: str, shape: Shape, wrap: Callable[[nn.Module], nn.Module], device: str = "cpu"
) -> tuple[FlatModule, np.ndarray]:
    """Build a model, wrapped by `wrap`, and the vector from which it starts.

    Args:
        model: name of a model.
        shape: channels, height and width of an image.
        wrap: takes the module and returns the one that is trained.
        device: as torch names it, the CPU by default.
    """
    inputs = Inputs("pixels", shape)
    module = wrap(build_blank(model, inputs, CLASSES).to(device))
    return FlatModule(module), draw_initial_vector(model, inputs, CLASSES, seed=0)


def time_in_turns(works: Sequence[Work], repeats: int) -> list[list[float]]:
    """Time functions in turns: a list of processor seconds for each.

    The first turn is not counted: libraries choose their kernels in it.
    """
    times: list[list[float]] = [[] for _ in works]
    with fix_numerics(tf32=False):
        for turn in range(1 + repeats):
            for work, seconds in zip(works, times, strict=True):
                # The processor's time: other programs of the machine would lengthen the wall clock's.
                start = time.process_time()
                work()
                if turn:
                    seconds.append(time.process_time() - start)
    return times


def compute_median_ratio(seconds: Sequence[float], other: Sequence[float]) -> float:
    """Compute the median over the turns of the first seconds over the second."""
    return statistics.median(one / two for one, two in zip(seconds, other, strict=True))
