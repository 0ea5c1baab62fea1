"""What a report says of runs that were not all made with the same code, versions and machines."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedgrid.engine.integrity.made_with import CODE, IMAGES, MADE_WITH, Parts, differing, parts_of


def origin_notes(folders: Mapping[str, Path]) -> tuple[str, ...]:
    """Return sentences about finished runs, name -> folder: those that changed on their way, and mixtures.

    Runs that were read from the archive were made elsewhere and are left out.

    Raises:
        NewerFormat, DamagedFile: what a run was made with cannot be read.
    """
    parts = {name: found for name, folder in folders.items() if (found := parts_of(folder / MADE_WITH))}
    return (*(note for name, of_run in parts.items() for note in _changes(name, of_run)), *_mixtures(parts))


def _changes(name: str, parts: Parts) -> Sequence[str]:
    """Return a sentence for each change within a run."""
    known = [] if parts[0].from_round == 1 else [f"{name}: what made its first rounds is not known"]
    pairs = zip(parts, parts[1:], strict=False)
    changed = [(later.from_round, differing(before.made_with, later.made_with)) for before, later in pairs]
    return known + [f"{name}: rounds before {number} were {', '.join(how)}" for number, how in changed]


def _mixtures(parts: Mapping[str, Parts]) -> Sequence[str]:
    """Return a sentence for each thing in which the last parts of runs differ; their images may."""
    values: dict[str, dict[str, int]] = {}
    for of_run in parts.values():
        for what, value in of_run[-1].made_with.items():
            counts = values.setdefault(what, {})
            counts[value] = counts.get(value, 0) + 1
    return [
        f"the runs were made with several versions of {what}: "
        + ", ".join(f"{value[:12] if what == CODE else value} ({count})" for value, count in counts.items())
        for what, counts in values.items()
        if what != IMAGES and len(counts) > 1
    ]
