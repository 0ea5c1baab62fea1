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
"""A generator for each client, shape (K,)."""
Transform = Callable[[ImageSet, int, int, int], ImageSet]
"""What the clients of a hidden group do to images, from (images, group, number of groups, number of
classes)."""


@dataclass(frozen=True, eq=False)
class ImagePool:
    """The images that are split among the clients, as positions: what a kind of split sees of them.

    Built by fedgrid and passed to `OwnSplit.deal`.

    Args:
        positions_L: positions of each class.
        labels_N: class of each image.
        groups_N: group of each image. Default: none.
        group_names: names of the groups. Default: none.
        assigned: clients and their images, for split file. Default: none.
        subjects_N: subject of each image. Default: none.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> images = fedgrid.ImageSet(np.zeros((4, 3), np.float32), np.array([1, 0, 1, 1]))
        >>> pool = fedgrid.ImagePool.from_images(images, num_classes=2)
        >>> [positions.tolist() for positions in pool.positions_L]
        [[1], [0, 2, 3]]
    """

    positions_L: Sequence[Positions]
    """Positions of the images of each class, ascending."""
    labels_N: ClassLabels
    """Class of each image, 0 to L-1; all 0 where numbers are predicted."""
    groups_N: Groups | None = None
    """Group of each image, 0 to G-1; None: the images have no groups."""
    group_names: Sequence[str] = ()
    """Names of the groups, by their numbers."""
    assigned: Partition | None = None
    """Which client holds which image, for split file."""
    subjects_N: Subjects | None = None
    """Subject of each image, such as a patient; None: the data set names none."""

    @classmethod
    def from_images(cls, images: ImageSet, num_classes: int) -> ImagePool:
        """Build the pool of a data set with `num_classes` classes."""
        labels_N = images.classes
        positions_L = tuple(np.flatnonzero(labels_N == label) for label in range(num_classes))
        given = images.groups, images.group_names, images.assigned, images.subjects
        return cls(positions_L, labels_N, *given)


@dataclass(frozen=True)
class Changes:
    """The different ways in which the clients of a split change their images."""

    number: int
    """Number of hidden groups, or of clients where each changes its images in a way of its own."""
    make: Callable[[ImageSet, int], ImageSet]
    """Changes images as that group or client, from 0, has them."""
    by_client: bool = False
    """Whether `number` counts clients, not groups."""


class SplitKind(ABC):
    """A kind of split: subclasses have `deal_images`, and whatever differs from the defaults here."""

    OPTIONS: tuple[str, ...] = ()
    """Fields of `Split` that have an effect on this kind, but not on every kind."""
    IDLE: tuple[str, ...] = ()
    """Fields of `Split` that have no effect on this kind, but are accepted."""
    DEFAULTS: Mapping[str, object] = MappingProxyType({})
    """Fields of `Split` whose default differs for this kind."""
    TAKES: Collection[str] = KINDS
    """Kinds of examples that it can deal out or change (`Inputs.kind`)."""
    BY_CLASS: bool = False
    """Whether it deals out or changes examples by their classes, which numbers to predict do not have."""
    IMAGES_ARE_SHARED: bool = False
    """Whether several clients can hold the same image, so that splits leak unless `test_leakage` is none."""
    CAN_MOVE: bool = False
    """Whether clients can move to another hidden group in the middle of a run."""
    TRANSFORM: Transform | None = None
    """What a hidden group does to its clients' images, training and test; None: nothing."""

    def check_settings(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> None:
        """Check that the settings fit one another and the data set.

        Called before the run starts, by its plan and again by `split_pool`; no image has been read then.

        Args:
            scenario: data set, kind of split and number of clients.
            facts: what is known of the data set.
            split: the settings.
            seed: the run's seed.

        Raises:
            ConfigError: they do not, with its key.
        """
        return

    @abstractmethod
    def deal_images(
        self, scenario: Scenario, pool: ImagePool, split: Split, seed: int, rngs_K: Rngs
    ) -> Partition:
        """Deal out the images: each client's hidden group and positions, by settings that `check_settings`
        accepts.

        Called by `split_pool` once for each run. The cut of a client's images into training and test images
        continues with its generator.

        Args:
            scenario: data set, kind of split and number of clients.
            pool: the images, as positions.
            split: the settings.
            seed: the run's seed, for generators that all clients share.
            rngs_K: a generator for each client.

        Raises:
            ConfigError: the pool has too few images.
        """

    def expected_images(self, scenario: Scenario, facts: Facts, split: Split, seed: int) -> float:
        """Estimate how many images all clients hold together, with classes of equal size.

        Called by a run's plan, which estimates time and memory. Unless a kind says otherwise, every image has
        a client.

        Args:
            scenario: data set, kind of split and number of clients.
            facts: what is known of the data set.
            split: the settings.
            seed: the run's seed.

        Raises:
            ConfigError: the pool has too few images.
        """
        return float(facts.pool_size)

    def list_groups(self, scenario: Scenario, split: Split) -> list[int]:
        """List each client's hidden group at the start, without any image; needed if `CAN_MOVE`."""
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
        """Draw the positions of images for a client that moves to a group, ascending.

        Called before the first round for each client of `drift`. None: the client keeps its images, and
        `TRANSFORM` changes them as it does for that group.

        Args:
            scenario: data set, kind of split and number of clients.
            pool: the images, as positions.
            split: the settings.
            seed: the run's seed.
            rng: generator of this move.
            group: the new hidden group.
        """
        return None

    def build_changes(self, split: Split, num_clients: int, num_classes: int) -> Changes | None:
        """Build the changes that hidden groups, or clients, make to their images; None if they make none."""
        transform, num_groups = self.TRANSFORM, split.num_clusters
        if transform is None:
            return None
        return Changes(num_groups, lambda held, group: transform(held, group, num_groups, num_classes))
