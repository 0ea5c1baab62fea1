"""Insertion and deletion curves: the score of an image while its pixels are exchanged, important ones first.

An image's scores are the areas under its curves, by the order of its map and by a random one.

Source: Petsiuk et al., RISE, BMVC 2018, section 4.2. Insertion goes from a baseline image to the full one,
deletion from the full one to the baseline; a good order makes the first rise and the second fall at once. The
area is the trapezoid's over equally spaced points, as in RISE, also if the last step is a short one.

Shapes: an image of C channels and P = H x W pixels, K steps, so K + 1 points of a curve.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fedgrid.engine.federation.training.evaluation import TEST_BATCH
from fedgrid.grids.explain.compute.saliency import check_mode
from fedgrid.grids.explain.compute.settings import list_counts

Score: TypeAlias = Callable[[Tensor], Tensor]
"""Images (M, C, H, W) -> their scores, shape (M,)."""


@dataclass(frozen=True)
class Curves:
    """The two curves of one image and order, float64, shape (K + 1,) each."""

    insertion: Tensor
    deletion: Tensor


def build_class_score(module: nn.Module, target: int) -> Score:
    """Build a score from the softmax probability of a class; `module` must be in `eval` mode.

    Raises:
        ValueError: It is not.
    """
    check_mode(module)
    # In float64: a probability near 1 has too few digits in float32 for curves that differ little.
    return lambda images: module(images).double().softmax(dim=1)[:, target]


def sort_pixels(map_HW: Tensor) -> Tensor:
    """Sort the pixels, numbered row by row, by falling saliency, shape (P,); ties stay row by row.

    Raises:
        ValueError: The map has NaN, as that of a diverged model.
    """
    if map_HW.isnan().any():
        raise ValueError("the map has NaN: it orders no pixels")
    return torch.argsort(map_HW.flatten(), descending=True, stable=True)


def draw_random_order(num_pixels: int, rng: np.random.Generator) -> Tensor:
    """Draw a random order of the pixels, shape (P,), which any map must beat."""
    return torch.from_numpy(rng.permutation(num_pixels))


@torch.inference_mode()
def compute_curves(
    score: Score, image_CHW: Tensor, baseline_CHW: Tensor, orders: Sequence[Tensor], step: int
) -> list[Curves]:
    """Compute the curves of an image for several orders of its pixels.

    All orders share the scores of the two ends, so that these are equal to the last bit. Forward passes have
    at most `TEST_BATCH` images, all of this one image, so that other images do not change the bits.

    Args:
        score: Score of images on the device of `image_CHW`.
        image_CHW: The image, float32.
        baseline_CHW: Values of absent pixels, in all channels at once; the same shape.
        orders: Pixels by falling importance, each of shape (P,).
        step: Number of pixels that are exchanged at a time.

    Returns:
        The curves of each order.

    Raises:
        ConfigError: `step` does not fit the image.
    """
    at = list_counts(image_CHW[0].numel(), step)
    # The inverse of an order: the rank of each pixel says at which step it is exchanged.
    ranks = torch.stack([torch.argsort(order) for order in orders]).to(image_CHW.device)
    points = [(0, 0), (0, at[-1])]
    points += [(place, count) for place in range(len(orders)) for count in at[1:-1]]
    # Inserting the first pixels of an order, then deleting them.
    mixtures = [(place, count, True) for place, count in points]
    mixtures += [(place, count, False) for place, count in points[2:]]
    scores = torch.cat(
        [
            score(_mix_images(image_CHW, baseline_CHW, ranks, mixtures[start : start + TEST_BATCH]))
            for start in range(0, len(mixtures), TEST_BATCH)
        ]
    ).to("cpu", torch.float64)
    base, full, inner = scores[:1], scores[1:2], len(at) - 2
    inserted, deleted = scores[2:].view(2, len(orders), inner)
    return [
        Curves(torch.cat([base, rising, full]), torch.cat([full, falling, base]))
        for rising, falling in zip(inserted, deleted, strict=True)
    ]


def score_image(
    score: Score,
    image_CHW: Tensor,
    baseline_CHW: Tensor,
    map_HW: Tensor,
    step: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Score the order of a map, and a random one that `rng` draws.

    Args:
        score: Score as of `build_class_score`.
        image_CHW: The image, float32.
        baseline_CHW: Values of absent pixels; the same shape.
        map_HW: The image's saliency.
        step: Number of pixels that are exchanged at a time.
        rng: Generator for this image alone, so that its order does not depend on which others are scored.

    Returns:
        The columns of `records` from `insertion` to `empty`, and those of the curves: areas and probabilities
        from 0 to 1; curves as float16, shape (K + 1,).

    Raises:
        ConfigError: `step` does not fit the image.
        ValueError: The map has NaN.
    """
    orders = (sort_pixels(map_HW), draw_random_order(map_HW.numel(), rng).to(map_HW.device))
    by_map, by_chance = compute_curves(score, image_CHW, baseline_CHW, orders, step)
    by_name = {
        "insertion": by_map.insertion,
        "deletion": by_map.deletion,
        "random_insertion": by_chance.insertion,
        "random_deletion": by_chance.deletion,
    }
    return {
        **{name: compute_auc(curve) for name, curve in by_name.items()},
        "p_full": float(by_map.insertion[-1]),
        "p_base": float(by_map.insertion[0]),
        "empty": bool(map_HW.max() == map_HW.min()),
        # Half precision is enough for a figure, and halves the files; areas are computed before.
        **{f"{name}_curve": curve.numpy().astype(np.float16) for name, curve in by_name.items()},
    }


def compute_auc(curve: Tensor) -> float:
    """Compute the area under a curve, its points spread evenly over [0, 1]."""
    return float(torch.trapezoid(curve)) / (len(curve) - 1)


def _mix_images(
    image_CHW: Tensor, baseline_CHW: Tensor, ranks: Tensor, mixtures: Sequence[tuple[int, int, bool]]
) -> Tensor:
    """Mix the image with its baseline, shape (M, C, H, W), with or without the first pixels of an order."""
    places, numbers, inserts = (
        torch.tensor(column, device=ranks.device) for column in zip(*mixtures, strict=True)
    )
    shown = (ranks[places] < numbers[:, None]) == inserts[:, None]
    return torch.where(shown.view(-1, 1, *image_CHW.shape[1:]), image_CHW, baseline_CHW)
