"""Settings of an algorithm that cannot act within a run's rounds: unnoticed, it would be another one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fedgrid.algorithms.contract.section import first_rounds
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.errors import ConfigError

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig


def idle_settings(config: RunConfig) -> dict[str, str]:
    """Return setting -> a sentence about it; none of a plugin's that is not loaded."""
    name, rounds = config.algorithm["name"], config.training.rounds
    if name not in ALGORITHMS:
        return {}
    first_of = first_rounds(type(ALGORITHMS[name].settings), config.algorithm)
    return {
        key: f"algorithm {name}: {key} {config.algorithm[key]} acts from round {first} on, "
        f"and the last round is {rounds}"
        for key, first in first_of.items()
        if first > rounds
    }


def check_idle(config: RunConfig, given: Mapping[str, Any], searched: Collection[str] = ()) -> None:
    """Check that the defaults of a run fit together; what a user has typed is taken at its word.

    Settings that are `searched` do not keep their defaults.

    Raises:
        ConfigError: a setting at its default cannot act within the data set's own number of rounds.
    """
    algorithm, training = given.get("algorithm"), given.get("training", {})
    typed = algorithm if isinstance(algorithm, Mapping) else {}
    if "rounds" in training:
        return
    for key, sentence in idle_settings(config).items():
        if key not in typed and key not in searched:
            raise ConfigError(
                f"{sentence}, both by default; set algorithm.{key}, or training.rounds", ("algorithm",)
            )


def idle_lines(runs: Iterable[RunConfig]) -> list[str]:
    """Return a line for each setting that cannot act, with the number of runs."""
    counts = Counter(sentence for run in runs for sentence in idle_settings(run).values())
    return [f"{sentence} ({count} {'run' if count == 1 else 'runs'})" for sentence, count in counts.items()]
