"""The key `held_out` of a run's configuration: clients that never train in the federation."""

from collections.abc import Iterable
from math import floor

from fedgrid.engine.federation.configuration.faults import Faults


def num_held_out(share: float, clients: int) -> int:
    """Return how many of a run's clients are held out: the share, rounded, and at least one of any share."""
    return max(1, floor(share * clients + 0.5)) if share else 0


def never_held_out(joins: Iterable[int], faults: Faults, drift: Iterable[int]) -> frozenset[int]:
    """Return the clients that join late, attack or change their data."""
    return frozenset((*joins, *faults.clients, *drift))


def held_out_problem(share: float, clients: int, others: int) -> str | None:
    """Return in one line why so many clients cannot be held out, None if they can; `others` never are."""
    count = num_held_out(share, clients)
    if count < clients - others and clients - count >= 2:
        return None
    return (
        f"{count} of {clients} clients would never train; at least two must, one of them named by none of "
        f"joins, faults and drift (they name {others}): take a smaller share, or more clients"
    )
