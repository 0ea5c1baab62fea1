"""What a report shows of explained images: summaries of their records.

Shapes: K + 1 points of a curve, N images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.explained.scores import AGAINST, DISTRIBUTIONS, Explained
from fedgrid.tracking.scoring.run import Scenario

ImageKey: TypeAlias = tuple[Scenario, int, int, int, int]
"""Scenario, seed, the client whose model explains the image, its holder and its place there."""


@dataclass(frozen=True)
class Band:
    """The curves of one algorithm's images of one data set: means, and the quartiles of the first two."""

    dataset: str
    clients: int
    algorithm: str
    on: str
    images: int
    means: Mapping[str, Array]
    """Name of a curve -> shape (K + 1,)."""
    quartiles: Mapping[str, Array]
    """Name of a curve -> first and third quartile, shape (2, K + 1)."""


@dataclass(frozen=True)
class ShownMap:
    """One image and its map by one algorithm's model."""

    scenario: Scenario
    seed: int
    algorithm: str
    on: str
    client: int
    place: tuple[int, int]
    """Its holder, and its place among that one's images: the same image has the same."""
    label: int
    prediction: int
    map_HW: Array
    """uint8."""
    pixels_CHW: Array
    """uint8."""
    is_empty: bool
    classes: tuple[str, ...] = ()
    """Names of the classes; empty where they have numbers only."""

    def class_name(self, label: int) -> str:
        """Return the name of a class, its number where it has none."""
        return self.classes[label] if 0 <= label < len(self.classes) else str(label)


@dataclass(frozen=True)
class ExplainedGrid:
    """The explanations of a grid's runs, all by the same settings."""

    explained: tuple[Explained, ...]
    """A row a model."""
    bands: tuple[Band, ...] = ()
    shown: tuple[ShownMap, ...] = ()
    excess: Mapping[tuple[str, str], Mapping[ImageKey, float]] = field(default_factory=dict)
    """(distribution, algorithm) -> each image's excess over a random order, divided by its probability."""
    about: str = ""
    """How the images were explained, in a sentence."""
    lacking: tuple[str, ...] = ()
    """What is missing, a sentence each."""

    def of_clients(self, clients: int) -> "ExplainedGrid":
        """Return those of scenarios with this many clients."""
        return ExplainedGrid(
            tuple(one for one in self.explained if one.scenario[1] == clients),
            tuple(one for one in self.bands if one.clients == clients),
            tuple(one for one in self.shown if one.scenario[1] == clients),
            {
                name: {key: value for key, value in images.items() if key[0][1] == clients}
                for name, images in self.excess.items()
            },
            self.about,
            self.lacking,
        )


@dataclass(frozen=True)
class Paired:
    """An algorithm's excess / p minus fedavg's, of images that both explain with one client's model."""

    algorithm: str
    difference: float
    better: float
    """Share of the images on which it is higher; half of the ties count."""
    images: int


def pair_images(grid: ExplainedGrid, on: str) -> list[Paired]:
    """Return the comparison of each algorithm with fedavg, image by image; none without it."""
    against = grid.excess.get((on, AGAINST), {})
    comparisons = []
    for (where, algorithm), images in grid.excess.items():
        both = [key for key in images if key in against]
        if where != on or algorithm == AGAINST or not both:
            continue
        differences = np.array([images[key] - against[key] for key in both])
        better = float(np.mean((differences > 0) + 0.5 * (differences == 0)))
        comparisons.append(Paired(algorithm, float(differences.mean()), better, len(both)))
    return comparisons


def sentence(grid: ExplainedGrid, on: str) -> str:
    """Return in a sentence whether clustering helps once confidence is taken out; empty without fedavg."""
    comparisons = pair_images(grid, on)
    if not comparisons:
        return ""
    better, worse = ([one for one in comparisons if sign * one.difference > 0] for sign in (1, -1))
    words = [
        f"{len(chosen)} of {len(comparisons)} algorithms {verb}: {_list_gains(chosen)}"
        for chosen, verb in ((better, "gain"), (worse, "lose"))
        if chosen
    ]
    counts = [one.images for one in comparisons]
    images = str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return (
        f"On {DISTRIBUTIONS[on]}, once confidence is taken out (excess over a random order, divided by p, "
        f"image by image against {AGAINST}, {images} images): {'; '.join(words) or 'no difference'}."
    )


def _list_gains(comparisons: Sequence[Paired]) -> str:
    ranked = sorted(comparisons, key=lambda one: -abs(one.difference))
    first = f"{ranked[0].algorithm} {ranked[0].difference:+.3f} (better on {ranked[0].better:.0%})"
    return ", ".join(
        [first, *(f"{one.algorithm} {one.difference:+.3f} ({one.better:.0%})" for one in ranked[1:])]
    )
