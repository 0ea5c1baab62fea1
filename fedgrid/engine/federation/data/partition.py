"""Who holds which examples of a pool, and which of them each client is tested on.

A file or a column of a data set says it, or a kind of split deals it out.

Shapes: K clients.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
"""Positions of examples in an `ImageSet`: ascending, each once."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The clients of a pool, their hidden groups and their examples; several may hold the same example."""

    group_K: Sequence[int]
    """The hidden group of each client, from 0; all 0 without groups."""
    train_K: Sequence[Positions]
    """Those that each client trains on; all that it holds until `is_cut`."""
    test_K: Sequence[Positions] = ()
    """Those that each client is scored on, none of which it trains on. Empty: they are not cut off yet."""
    is_official: bool = False
    """Whether `test_K` are positions in the official test set, not in the pool."""
    source: str = ""
    """What messages call the file or the data set that says it; empty where a split has dealt it out."""
    client_names: tuple[str, ...] = ()
    """As the source has them, by the clients' numbers."""
    group_names: tuple[str, ...] = ()
    """As the source has them, by the groups' numbers; empty without groups."""
    num_rows: int | None = None
    """Number of examples of the source, if each has a row; None: rows name their example."""

    @property
    def num_clients(self) -> int:
        """K."""
        return len(self.train_K)

    @property
    def is_cut(self) -> bool:
        """Whether it is known what clients are scored on."""
        return len(self.test_K) > 0

    @cached_property
    def held_K(self) -> Sequence[Positions]:
        """The examples of the pool that each client trains on or is scored on."""
        if not self.is_cut or self.is_official:
            return self.train_K
        return [np.union1d(train, test) for train, test in zip(self.train_K, self.test_K, strict=True)]

    @cached_property
    def are_shared(self) -> bool:
        """Whether an example has more than one client."""
        every = np.concatenate(self.held_K)
        return len(np.unique(every)) < len(every)

    @cached_property
    def num_leaked(self) -> int:
        """How many examples a client is tested on and another one trains on."""
        if not self.is_cut:
            return 0
        return len(np.intersect1d(np.concatenate(self.test_K), np.concatenate(self.train_K)))

    def keep(self, held_K: Sequence[Positions]) -> "Partition":
        """Return the same with `held_K` alone, some of what each client holds."""
        if not self.is_cut:
            return replace(self, train_K=held_K)
        return replace(
            self,
            train_K=[np.intersect1d(*both) for both in zip(self.train_K, held_K, strict=True)],
            test_K=[np.intersect1d(*both) for both in zip(self.test_K, held_K, strict=True)],
        )

    def cut(self, cuts_K: Sequence[tuple[Positions, Positions]]) -> "Partition":
        """Return the same with what each client trains on, and what it is scored on."""
        train_K, test_K = zip(*cuts_K, strict=True)
        return replace(self, train_K=train_K, test_K=test_K)
