"""The kinds of scenario: each deals the images of a pool out to clients by a rule of its own.

A new kind is a module with the members of `Kind` and one line in `KINDS`; options of its own are fields of
`engine.partition.settings.Split`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from fedgrid.engine.data.images import Positions
from fedgrid.engine.errors import ConfigError, unknown
from fedgrid.engine.partition import majority, ocfl
from fedgrid.engine.partition.scenarios import Scenario
from fedgrid.engine.partition.settings import Split


class Kind(Protocol):
    """What the module of a kind defines. Shapes: K clients, L classes."""

    OPTIONS: tuple[str, ...]
    """Fields of `Split` that have an effect on this kind, but not on every kind."""
    DEFAULTS: Mapping[str, object]
    """Fields of `Split` whose default differs for this kind."""
    IMAGES_ARE_SHARED: bool
    """Whether several clients can hold the same image, so that splits leak unless `test_leakage` is none."""

    def check(self, scenario: Scenario, num_classes: int, split: Split, seed: int) -> None:
        """Check that the settings fit one another and the number of classes.

        Raises:
            ConfigError: otherwise, with its key.
        """

    def deal(
        self,
        scenario: Scenario,
        positions_L: Sequence[Positions],
        split: Split,
        seed: int,
        rngs_K: Sequence[np.random.Generator],
    ) -> tuple[list[int], list[Positions]]:
        """Return each client's hidden group, from 0, and the positions of its images, ascending.

        Args:
            scenario: one that `check` accepts.
            positions_L: positions of each class in the pool.
            split: settings.
            seed: the run's seed.
            rngs_K: a generator per client; the cut into training and test images continues with it.

        Raises:
            ConfigError: the pool has too few images.
        """

    def expected_images(
        self, scenario: Scenario, pool_size: int, num_classes: int, split: Split, seed: int
    ) -> float:
        """Return the expected number of images that all clients hold, with classes of equal size.

        Raises:
            ConfigError: the pool has too few images.
        """


KINDS: dict[str, Kind] = {"overlapping": ocfl, "nonoverlapping": ocfl, "majority": majority}
"""Kinds by the value of a run's `overlap`."""


def kind_of(overlap: str) -> Kind:
    """Return a kind by its name.

    Raises:
        ConfigError: no kind has that name.
    """
    if overlap not in KINDS:
        raise unknown("overlap", overlap, KINDS)
    return KINDS[overlap]


def check(scenario: Scenario, num_classes: int, split: Split, seed: int) -> None:
    """Check that the settings of a split have an effect and fit one another; needs no images.

    Raises:
        ConfigError: an option of another kind, or settings that do not fit; with its key.
    """
    kind = kind_of(scenario.overlap)
    for option in dict.fromkeys(option for other in KINDS.values() for option in other.OPTIONS):
        given = getattr(split, option)
        if option not in kind.OPTIONS and given != Split.model_fields[option].get_default():
            owners = " or ".join(name for name, other in KINDS.items() if option in other.OPTIONS)
            raise ConfigError(
                f"split.{option} = {given} has no effect with overlap {scenario.overlap}, "
                f"only with {owners}; leave it out",
                ("split", option),
            )
    kind.check(scenario, num_classes, split, seed)
