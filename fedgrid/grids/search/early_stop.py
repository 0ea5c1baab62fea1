"""Early stopping: at which rounds the worse trials of a search stop, and which of them go on.

This is successive halving (Jamieson and Talwalkar 2016): trials that are compared wait for one another. ASHA
does not wait, so that the trials it stops depend on which run is fast.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf, isfinite
from typing import Any, TypeAlias

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, unknown_key_error

EARLY_STOP = "early_stop"
"""Key of a search's file."""
EARLY_STOP_KEYS = ("at", "keep")
Rung: TypeAlias = float
"""Where trials are compared: below 1 a share of a run's rounds, else a round, from 1."""
END: Rung = inf
"""The last round of a run."""


@dataclass(frozen=True)
class EarlyStop:
    """The rungs of a search, ascending, and how many trials go on at each."""

    at: tuple[Rung, ...] = ()
    keep: float = 0.5
    """Share of the compared trials that go on, rounded up."""
    in_batches: bool = True
    """Whether only the trials of one batch are compared, also where a searcher needs no scores."""

    def to_plain(self) -> Any:
        """Convert the value to that of a file."""
        if not self.at:
            return False
        return True if self == HALVES else {"at": list(self.at), "keep": self.keep}

    def select_better(self, values: Mapping[int, float]) -> list[int]:
        """Select the trials that go on; return their keys, ascending. Ties go to the least key."""
        ranked = sorted(values, key=lambda key: (-values[key], key))
        # In floating point 0.14 * 50 is just above 7; without the rounding, 8 would go on.
        return sorted(ranked[: ceil(round(self.keep * len(ranked), 9))])

    def check(self, runs: Sequence[RunConfig]) -> None:
        """Check that every run has the rungs' rounds, in this order, and is tested there.

        Raises:
            ConfigError: A run has not; the message names it.
        """
        for run in runs:
            numbers = [compute_round(run, rung) for rung in self.at]
            if numbers != sorted(numbers):
                raise ConfigError(
                    f"{EARLY_STOP}.at = {list(self.at)}: rounds {', '.join(map(str, numbers))} of "
                    f"{run.scenario}; expected ascending ones"
                )
            for rung in self.at:
                number = compute_round(run, rung)
                if rung >= run.training.rounds:
                    raise ConfigError(
                        f"{EARLY_STOP} compares trials in round {rung}, and {run.scenario} has "
                        f"{run.training.rounds} rounds; name earlier rounds, or shares such as 0.5"
                    )
                if number % run.evaluation.every:
                    raise ConfigError(
                        f"{EARLY_STOP} compares trials in round {number} of {run.scenario}, and "
                        f"evaluation.every = {run.evaluation.every} tests nothing there; "
                        "set evaluation.every=1"
                    )


NEVER = EarlyStop()
HALVES = EarlyStop((0.25, 0.5))
"""Meaning of `early_stop: true`."""


def read_early_stop(given: Any) -> EarlyStop:
    """Parse the value of a file's key, or of an option.

    Raises:
        ConfigError: A key or value is wrong.
    """
    if isinstance(given, bool):
        return HALVES if given else NEVER
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{EARLY_STOP} = {given!r}: expected true or false, or {{at: [ROUND, ...], keep: SHARE}}"
        )
    for key in given:
        if key not in EARLY_STOP_KEYS:
            raise unknown_key_error(str(key), EARLY_STOP, EARLY_STOP_KEYS)
    at, keep = given.get("at"), given.get("keep", HALVES.keep)
    if not isinstance(at, list) or not at or not all(map(_is_rung, at)) or sorted(set(at)) != at:
        raise ConfigError(
            f"{EARLY_STOP}.at = {at!r}: expected ascending rounds, or shares of them below 1, as in [8, 12]"
        )
    # A bool is an int in Python, but no share.
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep < 1:
        raise ConfigError(f"{EARLY_STOP}.keep = {keep!r}: expected a share between 0 and 1")
    return EarlyStop(tuple(at), keep, in_batches=False)


def compute_round(run: RunConfig, rung: Rung) -> int:
    """Compute the round, from 1, of a run's rung."""
    rounds = run.training.rounds
    return ceil(rung * rounds) if rung < 1 else int(min(rung, rounds))


def compute_share(run: RunConfig, rung: Rung) -> float:
    """Compute the share of a run's rounds at its rung."""
    return rung if rung < 1 else min(1.0, rung / run.training.rounds)


def _is_rung(given: Any) -> bool:
    """Check whether a value is a share below 1, or a round."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not isfinite(given):
        return False
    return 0 < given < 1 or (given >= 1 and given == int(given))
