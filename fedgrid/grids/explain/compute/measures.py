"""The scores of one explained image, beside those of a random order, and their means over images."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np
from torch import Tensor

from fedgrid.grids.explain.compute.curves import Curves, Score, auc, curves, order_of, random_order


@dataclass(frozen=True)
class ImageScores:
    """Areas under the curves of one image; all are probabilities."""

    insertion: float
    deletion: float
    random_insertion: float
    """Of the same image, its pixels in a random order."""
    random_deletion: float
    p_full: float
    """Score of the whole image: the confidence that both areas grow with."""
    p_base: float
    """Score of the baseline."""
    is_empty: bool
    """Whether the map is constant, so that its order is that of the rows."""
    curves: tuple[Curves, ...] = field(default=(), compare=False, repr=False)
    """The curves by the map, then those by the random order."""

    @property
    def gap(self) -> float:
        """Insertion minus deletion: what the order is worth, more is better."""
        return self.insertion - self.deletion

    @property
    def excess(self) -> float:
        """The gap minus that of the random order."""
        return self.gap - (self.random_insertion - self.random_deletion)


@dataclass(frozen=True)
class ScoreMeans:
    """Means over images of equal weight; NaN if one of them has a NaN."""

    images: int
    insertion: float
    deletion: float
    gap: float
    excess: float
    p_full: float
    empty_share: float
    """Share of empty maps, 0 to 1."""


def score_image(
    score: Score,
    image_CHW: Tensor,
    baseline_CHW: Tensor,
    map_HW: Tensor,
    step: int,
    rng: np.random.Generator,
) -> ImageScores:
    """Score the order of a map, and a random one that `rng` draws.

    Args:
        score: as of `curves.class_score`.
        image_CHW: float32.
        baseline_CHW: what stands for an absent pixel; the same shape.
        map_HW: the image's saliency.
        step: pixels exchanged at a time.
        rng: seeded for this image alone, so that its order does not depend on which others are scored.

    Raises:
        ConfigError: `step` does not fit the image.
        ValueError: the map has NaN.
    """
    orders = (order_of(map_HW), random_order(map_HW.numel(), rng).to(map_HW.device))
    by_map, by_chance = curves(score, image_CHW, baseline_CHW, orders, step)
    return ImageScores(
        insertion=auc(by_map.insertion),
        deletion=auc(by_map.deletion),
        random_insertion=auc(by_chance.insertion),
        random_deletion=auc(by_chance.deletion),
        p_full=float(by_map.insertion[-1]),
        p_base=float(by_map.insertion[0]),
        is_empty=bool(map_HW.max() == map_HW.min()),
        curves=(by_map, by_chance),
    )


def summary(scores: Sequence[ImageScores]) -> ScoreMeans:
    """Return the means over images.

    Raises:
        ValueError: there is no image.
    """
    if not scores:
        raise ValueError("no images to average: expected at least one")
    means = {
        name: fmean(getattr(image, name) for image in scores)
        for name in ("insertion", "deletion", "gap", "excess", "p_full")
    }
    return ScoreMeans(len(scores), **means, empty_share=fmean(image.is_empty for image in scores))
