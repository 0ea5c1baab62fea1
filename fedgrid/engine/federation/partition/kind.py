"""A kind of split: a rule by which the images of a pool are dealt out to clients.

Shapes: K clients, L classes, N images.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from fedgrid.engine.federation.data.images import ClassLabels, Groups, ImageSet, Subjects
from fedgrid.engine.federation.data.partition import Partition, Positions
from fedgrid.engine.federation.inputs import KINDS

if TYPE_CHECKING:
    from fedgrid.engine.federation.data.dataset import Facts
    from fedgrid.engine.federation.partition.scenarios import Scenario
    from fedgrid.engine.federation.partition.settings import Split

Rngs = Sequence[np.random.Generator]
"""A generator for each client."""
Transform = Callable[[ImageSet, int, int, int], ImageSet]
"""What the clients of a hidden group do to images, from (images, group, number of groups, classes)."""


@dataclass(frozen=True, eq=False)
class ImagePool:
    """The images that are split among the clients, as positions."""

    positions_L: Sequence[Positions]
    """Of each class, ascending."""
    labels_N: ClassLabels
    groups_N: Groups | None = None
    """The group of each image, 0 to G-1, if the images have groups."""
    group_names: Sequence[str] = ()
    """Of the groups, by their numbers."""
    assigned: Partition | None = None
    """Who holds what, with split file."""
    subjects_N: Subjects | None = None
    """Whom each image is about, if the data set says it."""

    @classmethod
    def from_images(cls, images: ImageSet, num_classes: int) -> ImagePool:
        """Return the pool of a data set that has `num_classes`."""
        labels_N = images.classes
        positions_L = tuple(np.flatnonzero(labels_N == label) for label in range(num_classes))
        given = images.groups, images.group_names, images.assigned, images.subjects
        return cls(positions_L, labels_N, *given)


@dataclass(frozen=True)
class Changes:
    """The different ways in which the clients of a split change their images."""

    number: int
    """Of hidden groups, or of clients where each has a way of its own."""
    make: Callable[[ImageSet, int], ImageSet]
    """Return images as that group or client, from 0, has them."""
    by_client: bool = False
    """Whether they are of clients."""


class SplitKind(ABC):
    """What is the same for most kinds; a kind has `deal`, and what differs."""

    OPTIONS: tuple[str, ...] = ()
    """Fields of `Split` that have an effect on this kind, but not on every kind."""
    IDLE: tuple[str, ...] = ()
    """Fields of `Split` that have none, but are accepted."""
    DEFAULTS: Mapping[str, object] = MappingProxyType({})
    """Fields of `Split` whose default differs for this kind."""
    TAKES: Collection[str] = KINDS
    """What kinds of examples it can deal out or change (`Inputs.kind`)."""
    BY_CLASS: bool = False
    """Whether it deals out or changes examples by their classes, which numbers to predict have not."""
    IMAGES_ARE_SHARED: bool = False
    """Whether several clients can hold the same image, so that splits leak unless `test_leakage` is none."""
    CAN_MOVE: bool = False
    """Whether clients can move to another hidden group in the middle of a run."""
    TRANSFORM: Transform | None = None
    """What a hidden group does to its clients' images, training and test; None: nothing."""

    def check(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that the settings fit one another and the data set.

        Raises:
            ConfigError: otherwise, with its key.
        """
        return

    @abstractmethod
    def deal(self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs) -> Partition:
        """Return each client's hidden group and images, by settings that `check` accepts.

        The cut of a client's images into training and test images continues with its generator.

        Raises:
            ConfigError: the pool has too few images.
        """

    def expected_images(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> float:
        """Return the expected number of images that all clients hold, with classes of equal size.

        Unless a kind says otherwise, every image has a client.

        Raises:
            ConfigError: the pool has too few images.
        """
        return float(facts.pool_size)

    def groups(self, scenario: Scenario, split: Split) -> list[int]:
        """Return each client's hidden group at the start, known without any image; needed if `CAN_MOVE`."""
        raise NotImplementedError

    def draw_again(
        self,
        scenario: Scenario,
        pool: ImagePool,
        split: Split,
        seed: int,
        rng: np.random.Generator,
        group: int,
    ) -> Positions | None:
        """Return the positions of images for a client that moves to a group, ascending.

        None: it keeps its images, and `TRANSFORM` does to them what it does for that group.
        """
        return None

    def changes(self, split: Split, num_clients: int, num_classes: int) -> Changes | None:
        """Return what hidden groups, or clients, do to their images; None if they do nothing."""
        transform, num_groups = self.TRANSFORM, split.num_clusters
        if transform is None:
            return None
        return Changes(num_groups, lambda held, group: transform(held, group, num_groups, num_classes))
