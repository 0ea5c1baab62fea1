"""Tuning for the arena: as many label-free trials for every method, away from the arena's families."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from fedgrid.algorithms.averaging.fedopt import FedOptSettings
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.grids.arena.definition import TUNING, Arena
from fedgrid.grids.arena.methods import adapting
from fedgrid.grids.search.definition import Search, load_search
from fedgrid.grids.search.objectives import ACCURACY

__all__ = ["Search", "digest_of", "search_of", "space_of"]

COMMON = {"server_learning_rate": {"low": 0.5, "high": 2.0, "log": True}}
"""What every method that averages can tune, beside its own settings: some have none."""


def search_of(arena: Arena, method: str) -> Search | None:
    """Return the search of a method's settings, None if it has none to tune."""
    space = space_of(method, arena.rounds)
    if not space:
        return None
    changes = [f"algorithm.{key}={value}" for key, value in adapting(method, "served", 0).items()]
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


def space_of(method: str, rounds: int) -> dict[str, Any]:
    """Return the space of a method: its own, and what all that average have."""
    entry = ALGORITHMS[method]
    return {**entry.space(rounds), **(COMMON if isinstance(entry.settings, FedOptSettings) else {})}


def digest_of(search: Search | None) -> str:
    """Return the digest of a search."""
    described = {key: value for key, value in search.described.items() if key != "trials"} if search else {}
    return sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:12]
