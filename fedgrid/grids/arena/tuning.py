"""Tuning for the arena: as many label-free trials for each method and protocol, the defaults first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from fedgrid.grids.arena.definition import Arena
from fedgrid.grids.arena.kept import KeptResults, TunedMethod
from fedgrid.grids.arena.methods import plays, space_of
from fedgrid.grids.display.plain import warn
from fedgrid.grids.search.definition import Search, search_from
from fedgrid.grids.search.objectives import ACCURACY, LABEL_FREE, best
from fedgrid.tracking.verdicts.outcomes import PROTOCOLS, Protocol

if TYPE_CHECKING:
    from fedgrid.grids.search.run import Advanced

Advance: TypeAlias = "Callable[[Search], Advanced]"
"""Runs a search as far as it goes."""


def tune(arena: Arena, stored: KeptResults, advance: Advance) -> Iterator[TunedMethod | None]:
    """Yield the settings of each competitor, searched where none are stored; then None if it is to stop."""
    for method, protocol, search in searches(arena):
        defaults = TunedMethod(
            arena.dataset_in_files, method, protocol, arena.trials, 0, 0.0, {}, digest_of(search)
        )
        if search is None:
            yield defaults
        elif tuned := stored.settings(defaults.key, defaults.search):
            yield tuned
        else:
            advanced = advance(search)
            # An incomplete search has a best trial so far, but not the one that a complete search selects.
            if advanced.result.stopped or not advanced.progress.complete:
                yield None
                return
            if trial := best(advanced.progress.trials, search.objective).get(LABEL_FREE):
                score = trial.value(search.objective) or 0.0
                yield replace(defaults, trial=trial.number, validation=score, params=trial.params)
            else:
                warn(f"{method}: no trial has a score; its defaults stand for tuned settings")
                yield defaults


def searches(arena: Arena) -> Iterator[tuple[str, Protocol, Search | None]]:
    """Yield the search of each competitor's settings under each protocol; None if it has none to tune."""
    for method in arena.competitors:
        for protocol in PROTOCOLS:
            if plays(method, protocol):
                yield method, protocol, _search_of(arena, method, protocol)


def _search_of(arena: Arena, method: str, protocol: Protocol) -> Search | None:
    """Build the search of a method's settings under a protocol; None if it has none to tune."""
    base = arena.tuning_runs(method, protocol)
    space = space_of(method, min(run.training.rounds for run in base))
    if not space:
        return None
    name = f"{arena.name}-{method}-{protocol}"
    return search_from(name, method, space, arena.trials, ACCURACY, base)


def digest_of(search: Search | None) -> str:
    """Compute the digest of a search, without its number of trials, which the key of stored settings has."""
    described = {key: value for key, value in search.described.items() if key != "trials"} if search else {}
    return sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]
