"""Which client holds which examples of a pool, and which of them each client is tested on.

A file or a column of a data set says it, or a kind of split deals it out.

Shapes: K clients, R rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedgrid.engine.federation.data.names import compose_accents, sort_names
from fedgrid.engine.federation.errors import DataError

TRAIN, TEST = "train", "test"
"""What a file of a split writes in its column `part`."""
Positions = NDArray[np.int64]
"""Positions of examples in an `ImageSet`: ascending, each once."""


@dataclass(frozen=True, eq=False)
class Partition:
    """The clients of a pool, their hidden groups and their examples.

    Several clients may hold the same example.
    """

    group_K: Sequence[int]
    """The hidden group of each client, from 0; all 0 without groups."""
    train_K: Sequence[Positions]
    """Positions of the examples that each client trains on; all that it holds until `is_cut`."""
    test_K: Sequence[Positions] = ()
    """Positions of the examples that each client is scored on, none of which it trains on. Empty: not cut off
    yet."""
    is_official: bool = False
    """Whether `test_K` are positions in the official test set, not in the pool."""
    source: str = ""
    """What messages call the file or the data set that assigns the examples; empty where a split has dealt
    them out."""
    client_names: tuple[str, ...] = ()
    """Names of the clients in the source, by the clients' numbers."""
    group_names: tuple[str, ...] = ()
    """Names of the groups in the source, by the groups' numbers; empty without groups."""
    num_rows: int | None = None
    """Number of examples of the source if it has a row for each; None: each row names its example."""

    @property
    def num_clients(self) -> int:
        """Number of clients, K."""
        return len(self.train_K)

    @property
    def is_cut(self) -> bool:
        """Whether the examples that clients are scored on have been chosen."""
        return len(self.test_K) > 0

    @cached_property
    def held_K(self) -> Sequence[Positions]:
        """Positions in the pool that each client trains on or is scored on."""
        # Positions in the official test set count another array; a union with them would mix the two.
        if not self.is_cut or self.is_official:
            return self.train_K
        return [np.union1d(train, test) for train, test in zip(self.train_K, self.test_K, strict=True)]

    @cached_property
    def has_shared_examples(self) -> bool:
        """Whether an example has more than one client."""
        all_positions = np.concatenate(self.held_K)
        return len(np.unique(all_positions)) < len(all_positions)

    @cached_property
    def num_leaked(self) -> int:
        """Number of examples that a client is tested on and another one trains on."""
        if not self.is_cut:
            return 0
        return len(np.intersect1d(np.concatenate(self.test_K), np.concatenate(self.train_K)))

    def restrict_to(self, held_K: Sequence[Positions]) -> "Partition":
        """Restrict each client to some of the examples that it holds."""
        if not self.is_cut:
            return replace(self, train_K=held_K)
        return replace(
            self,
            train_K=[np.intersect1d(*both) for both in zip(self.train_K, held_K, strict=True)],
            test_K=[np.intersect1d(*both) for both in zip(self.test_K, held_K, strict=True)],
        )

    def with_cuts(self, cuts_K: Sequence[tuple[Positions, Positions]]) -> "Partition":
        """Replace each client's examples by a cut into (training, scored) positions."""
        train_K, test_K = zip(*cuts_K, strict=True)
        return replace(self, train_K=train_K, test_K=test_K)


def assign_rows(
    source: str,
    clients_R: Sequence[str],
    *,
    groups_R: Sequence[str] | None = None,
    parts_R: Sequence[str] | None = None,
    examples_R: Sequence[str] | None = None,
) -> Partition:
    """Read which client holds which example from rows of texts.

    Clients are numbered from 0, in the order of `sort_names`; hidden groups likewise.

    Args:
        source: what messages call the file or the data set.
        clients_R: the client of each example; an empty text: no client holds it.
        groups_R: the hidden group of the row's client. Default: no groups.
        parts_R: whether the client trains on the example or is tested on it, `train` or `test`. Default: not
            cut yet.
        examples_R: the row's example, by its position in the pool. Default: row i is example i.

    Raises:
        DataError: a value is missing or wrong, or two rows contradict each other.
    """
    names = sort_names({client for client in clients_R if client})
    if not names:
        raise DataError(f"{source}: no example has a client; write one into the column client")
    clients_R = compose_accents(clients_R)
    numbers = {name: number for number, name in enumerate(names)}
    client_R = np.array([numbers.get(client, -1) for client in clients_R], np.int64)
    example_R = _parse_positions(source, examples_R) if examples_R is not None else np.arange(len(clients_R))
    # One sort by client, then example, instead of a loop over clients: a file may have thousands of clients.
    # Rows without a client (-1) come first and are cut off.
    # By client, then by example.
    order = np.lexsort((example_R, client_R))[np.count_nonzero(client_R < 0) :]
    client_R, example_R = client_R[order], example_R[order]
    # Sorted by both, so that a pair that stands twice has itself as its neighbour.
    twice = (np.diff(client_R) == 0) & (np.diff(example_R) == 0)
    if twice.any():
        row = int(np.argmax(twice))
        raise DataError(
            f"{source}: two rows give example {example_R[row]} to client {names[client_R[row]]}; remove one"
        )
    stops_K = np.searchsorted(client_R, np.arange(1, len(names)))
    held_K = np.split(example_R, stops_K)
    group_by_client = (
        _group_by_client(source, clients_R, compose_accents(groups_R)) if groups_R is not None else {}
    )
    # Groups of rows without a client name no hidden group of the run.
    groups = {group for client, group in zip(clients_R, groups_R or (), strict=False) if client}
    group_names = sort_names(groups)
    # Without groups in the file all clients are group 0.
    partition = Partition(
        tuple(group_names.index(group_by_client[name]) if group_by_client else 0 for name in names),
        held_K,
        source=source,
        client_names=tuple(names),
        group_names=tuple(group_names),
        num_rows=len(clients_R) if examples_R is None else None,
    )
    if parts_R is None:
        return partition
    is_test_K = np.split(_parse_parts(source, clients_R, parts_R)[order], stops_K)
    cuts_K = [(held[~is_test], held[is_test]) for held, is_test in zip(held_K, is_test_K, strict=True)]
    return partition.with_cuts(cuts_K)


def assign_clients(source: str, clients_N: Sequence[str], groups_N: Sequence[str] | None) -> Partition:
    """Read which client holds which example where each example has a client.

    Clients are in hidden groups if each client is in a single one; otherwise the groups are ignored.

    Args:
        source: what messages call the file or the data set.
        clients_N: the client of each example; an empty text: none.
        groups_N: the group of each example; None: no groups.

    Raises:
        DataError: as `assign_rows`.
    """
    if groups_N is not None:
        pairs = set(zip(compose_accents(clients_N), compose_accents(groups_N), strict=True))
        # If one client has rows of two groups, no client has a group: the truth would be incomplete. The run
        # still works, without scores of clustering.
        if len(pairs) > len({client for client, _ in pairs}):
            groups_N = None
    return assign_rows(source, clients_N, groups_R=groups_N)


def _parse_positions(source: str, examples_R: Sequence[str]) -> Positions:
    """Parse positions in the pool; a text that is no whole number is refused."""
    for example in examples_R:
        if not example.isdecimal():
            raise DataError(
                f"{source}: example '{example}' is no position; number the examples of the pool 0, 1, 2, ..."
            )
    return np.array([int(example) for example in examples_R], np.int64)


def _parse_parts(source: str, clients_R: Sequence[str], parts_R: Sequence[str]) -> NDArray[np.bool_]:
    """Parse the column `part`, shape (R,); True where the client is tested on the row's example."""
    for client, part in zip(clients_R, parts_R, strict=True):
        if client and part not in (TRAIN, TEST):
            raise DataError(
                f"{source}: part '{part}' of an example of client {client}; take {TRAIN} or {TEST}, or leave "
                "the column part out"
            )
    return np.array([part == TEST for part in parts_R], bool)


def _group_by_client(source: str, clients_R: Sequence[str], groups_R: Sequence[str]) -> dict[str, str]:
    """Find the hidden group of each client; a client in two groups is refused."""
    group_by_client: dict[str, str] = {}
    for client, group in zip(clients_R, groups_R, strict=True):
        if not client:
            continue
        if not group:
            raise DataError(
                f"{source}: a row of client {client} has no group; give each client one, or leave the column "
                "group out"
            )
        if group_by_client.setdefault(client, group) != group:
            raise DataError(
                f"{source}: client {client} is in group {group_by_client[client]} and in group {group}; "
                "give all "
                "its rows one"
            )
    return group_by_client


def number_names(texts: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """Number each text by its position among `names`, as `sort_names` returns them."""
    numbers = {name: number for number, name in enumerate(names)}
    return np.array([numbers[text] for text in compose_accents(texts)], np.int64)
