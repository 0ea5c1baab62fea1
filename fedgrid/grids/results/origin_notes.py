"""What a report says of runs that were not all made with the same code, versions and machines."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedgrid.engine.runtime.integrity.made_with import (
    CODE,
    IMAGES,
    MADE_WITH,
    MadeWith,
    Parts,
    differing,
    parts_of,
)


def origin_notes(folders: Mapping[str, Path], algorithms: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return sentences about finished runs: those that changed on their way, and mixtures.

    Runs that were read from the archive were made elsewhere and are left out.

    Args:
        folders: the name of each run -> its folder.
        algorithms: the name of each run -> its section `algorithm`.

    Raises:
        NewerFormat, DamagedFile: what a run was made with cannot be read.
    """
    parts = {name: found for name, folder in folders.items() if (found := parts_of(folder / MADE_WITH))}
    last = {name: of_run[-1].made_with for name, of_run in parts.items()}
    return (
        *(note for name, of_run in parts.items() for note in _changes(name, of_run)),
        *_mixtures(last),
        *_mixtures_of_code(last, algorithms),
    )


def _changes(name: str, parts: Parts) -> Sequence[str]:
    """Return a sentence for each change within a run."""
    known = [] if parts[0].from_round == 1 else [f"{name}: what made its first rounds is not known"]
    pairs = zip(parts, parts[1:], strict=False)
    changed = [(later.from_round, differing(before.made_with, later.made_with)) for before, later in pairs]
    return known + [f"{name}: rounds before {number} were {', '.join(how)}" for number, how in changed]


def _mixtures(last: Mapping[str, MadeWith]) -> Sequence[str]:
    """Return a sentence for each thing in which the last parts of runs differ; images and code may."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for made_with in last.values():
        for what, value in made_with.items():
            counts[what][value] += 1
    return [
        f"the runs were made with several versions of {what}: {_listed(of_what)}"
        for what, of_what in counts.items()
        if what not in (IMAGES, CODE) and len(of_what) > 1
    ]


def _mixtures_of_code(
    last: Mapping[str, MadeWith], algorithms: Mapping[str, Mapping[str, Any]]
) -> Sequence[str]:
    """Return a sentence about algorithms whose runs have several codes: each algorithm's is another one."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, made_with in last.items():
        counts[_modules_of(algorithms[name])][made_with[CODE][:12]] += 1
    mixed = [f"{algorithm} {_listed(codes)}" for algorithm, codes in counts.items() if len(codes) > 1]
    return [f"runs of one algorithm were made with several versions of code: {'; '.join(mixed)}"] * bool(
        mixed
    )


def _modules_of(algorithm: Mapping[str, Any]) -> str:
    """Return what the code depends on: the algorithm, and parts of its settings that have a name."""
    parts = [
        value["name"] for value in algorithm.values() if isinstance(value, Mapping) and value.get("name")
    ]
    return " with ".join([algorithm["name"], *parts])


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{value} ({count})" for value, count in counts.items())
