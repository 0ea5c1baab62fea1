"""Tuning for the arena: as many label-free trials for every method, away from the arena's families."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from fedgrid.grids.arena.definition import TUNING, Arena
from fedgrid.grids.arena.kept import KeptResults, TunedMethod
from fedgrid.grids.arena.methods import adapt_settings, space_of
from fedgrid.grids.display.plain import warn
from fedgrid.grids.search.definition import Search, load_search
from fedgrid.grids.search.objectives import ACCURACY, LABEL_FREE, best

if TYPE_CHECKING:
    from fedgrid.grids.search.run import Advanced

Advance: TypeAlias = "Callable[[Search], Advanced]"
"""Runs a search as far as it goes."""

__all__ = ["Advance", "Search", "digest_of", "search_of", "tune"]


def tune(arena: Arena, stored: KeptResults, advance: Advance) -> Iterator[TunedMethod | None]:
    """Yield the settings of each competitor, searched where none are kept; then None if it is to stop."""
    dataset = arena.dataset_in_files
    for method in arena.competitors:
        search = search_of(arena, method)
        digest = digest_of(search)
        nothing = TunedMethod(dataset, method, arena.trials, 0, 0.0, {}, digest)
        if search is None:
            warn(f"{method} has nothing to tune: give its AlgorithmEntry search={{...}}; its defaults run")
            yield nothing
        elif tuned := stored.settings(dataset, method, arena.trials, digest):
            yield tuned
        else:
            advanced = advance(search)
            if advanced.result.stopped or not advanced.progress.complete:
                yield None
                return
            if trial := best(advanced.progress.trials, search.objective).get(LABEL_FREE):
                score = trial.value(search.objective) or 0.0
                yield TunedMethod(dataset, method, search.trials, trial.number, score, trial.params, digest)
            else:
                warn(f"{method}: no trial has a score; its defaults stand for tuned settings")
                yield nothing


def search_of(arena: Arena, method: str) -> Search | None:
    """Return the search of a method's settings, None if it has none to tune."""
    space = space_of(method, arena.rounds)
    if not space:
        return None
    changes = [f"algorithm.{key}={value}" for key, value in adapt_settings(method, "served", 0).items()]
    return load_search(
        method,
        {"dataset": arena.dataset, "split": arena.tuning_families.splits},
        [*changes, *arena.changes],
        arena.data_dir,
        own={"trials": arena.trials, "objective": ACCURACY},
        name=f"{arena.name}-{method}",
        base=str(TUNING),
        space=space,
    )


def digest_of(search: Search | None) -> str:
    """Return the digest of a search."""
    described = {key: value for key, value in search.described.items() if key != "trials"} if search else {}
    return sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]
