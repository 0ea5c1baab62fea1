"""Runs the searches of an arena as far as they go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console

from fedgrid.grids.arena.definition import Arena
from fedgrid.grids.arena.kept import Kept
from fedgrid.grids.arena.tuned import Tuned
from fedgrid.grids.arena.tuning import digest_of, search_of
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.progress import JsonLines
from fedgrid.grids.search.objectives import LABEL_FREE, best

if TYPE_CHECKING:
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.arena.tuning import Search
    from fedgrid.grids.planning.options import LaunchOptions
    from fedgrid.grids.search.run import Advanced

Advance: TypeAlias = "Callable[[Search, Storage, LaunchOptions, Console], Advanced]"


def tune(
    arena: Arena, kept: Kept, storage: Storage, options: LaunchOptions, console: Console, advance: Advance
) -> dict[str, Tuned] | None:
    """Search the settings of every competitor that has none kept; None if it was asked to stop."""
    tuning: dict[str, Tuned] = {}
    dataset = arena.dataset_in_files
    for method in arena.competitors:
        search = search_of(arena, method)
        tuned = kept.settings(dataset, method, arena.trials, digest_of(search))
        if search is None:
            tuned = Tuned(dataset, method, arena.trials, 0, 0.0, {}, digest_of(None))
            warn(f"{method} has nothing to tune: give its AlgorithmEntry search={{...}}; its defaults run")
        if tuned is None and search is not None:
            advanced = advance(search, storage, options, console)
            if advanced.result.stopped or not advanced.progress.complete:
                return None
            trial = best(advanced.progress.trials, search.objective).get(LABEL_FREE)
            tuned = Tuned(dataset, method, search.trials, 0, 0.0, {}, digest_of(search))
            if trial:
                score = trial.value(search.objective) or 0.0
                tuned = replace(tuned, trial=trial.number, validation=score, params=trial.params)
            else:
                warn(f"{method}: no trial has a score; its defaults stand for tuned settings")
        assert tuned is not None
        tuning[method] = tuned
        if options.as_json:
            JsonLines().event("tuned", **asdict(tuned))
        elif tuned.trial:
            settings = ", ".join(f"{key} {value}" for key, value in tuned.params.items())
            print_plain(
                console,
                f"tuned {method}: trial {tuned.trial} of {arena.trials}, validation accuracy "
                f"{tuned.validation:.3f}: {settings}",
            )
    return tuning
