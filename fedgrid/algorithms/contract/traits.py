"""The facts about an algorithm that the engine has to know before a round."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Facts about an algorithm with its settings; the engine has no other way to tell algorithms apart."""

    sends_updates: bool = True
    """Whether clients send anything. False: every client trains for itself, no uplink transform touches its
    update, and there is no traffic."""
    averages_updates: bool = False
    """Whether all that models learn of clients are means of updates (`Updates.means`). Only then does noise
    that the server adds to these means cover its models."""
    trains_plainly: bool = True
    """Whether every order is known to have the plain local rule; only then are clients stacked."""
    columns: frozenset[str] = frozenset()
    """Columns that records of other algorithms lack: those of `counts` and `members` of `Diagnostics` that it
    fills, and `message`."""
