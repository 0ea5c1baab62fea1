"""Tuning for the arena: as many label-free trials for each method and protocol, the defaults first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from fedgrid.grids.arena.definition import Arena
from fedgrid.grids.arena.methods import find_tuned_space, has_rows
from fedgrid.grids.arena.stored_results import StoredResults, TunedMethod
from fedgrid.grids.display.plain_console import warn
from fedgrid.grids.search.definition import Search, build_search
from fedgrid.grids.search.objectives import ACCURACY, LABEL_FREE, find_best
from fedgrid.tracking.verdicts.outcomes import PROTOCOLS, Protocol

if TYPE_CHECKING:
    from fedgrid.grids.search.run import SearchAdvance

Advance: TypeAlias = "Callable[[Search], SearchAdvance]"
"""Runs a search as far as it goes."""


def tune_methods(arena: Arena, stored: StoredResults, advance: Advance) -> Iterator[TunedMethod | None]:
    """Yield the settings of each competitor, searched where none are stored; then None if it is to stop."""
    for method, protocol, search in build_searches(arena):
        defaults = TunedMethod(
            arena.dataset_in_files, method, protocol, arena.trials, 0, 0.0, {}, compute_search_digest(search)
        )
        if search is None:
            yield defaults
        elif tuned := stored.find_settings(defaults.key, defaults.search):
            yield tuned
        else:
            advanced = advance(search)
            # An incomplete search has a best trial so far, but not the one that a complete search selects.
            if advanced.result.stopped or not advanced.progress.complete:
                yield None
                return
            if trial := find_best(advanced.progress.trials, search.objective).get(LABEL_FREE):
                score = trial.rank_value(search.objective) or 0.0
                yield replace(defaults, trial=trial.number, validation=score, params=trial.params)
            else:
                warn(f"{method}: no trial has a score; its defaults stand for tuned settings")
                yield defaults


def build_searches(arena: Arena) -> Iterator[tuple[str, Protocol, Search | None]]:
    """Yield the search of each competitor's settings under each protocol; None if it has none to tune."""
    for method in arena.competitors:
        for protocol in PROTOCOLS:
            if has_rows(method, protocol):
                yield method, protocol, _build_search(arena, method, protocol)


def _build_search(arena: Arena, method: str, protocol: Protocol) -> Search | None:
    """Build the search of a method's settings under a protocol; None if it has none to tune."""
    base = arena.build_tuning_runs(method, protocol)
    space = find_tuned_space(method, min(run.training.rounds for run in base))
    if not space:
        return None
    name = f"{arena.name}-{method}-{protocol}"
    return build_search(name, method, space, arena.trials, ACCURACY, base)


def compute_search_digest(search: Search | None) -> str:
    """Compute the digest of a search, without its number of trials, which the key of stored settings has."""
    described = {key: value for key, value in search.description.items() if key != "trials"} if search else {}
    return sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]
