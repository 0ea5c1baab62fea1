"""Checks before a launch that the runs of a grid were made with what is here, finished runs too."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fedgrid.engine.data.datasets import is_here
from fedgrid.engine.data.identity import digest_of_dataset
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.format import DamagedFile
from fedgrid.engine.integrity.made_with import (
    ACCEPT,
    IMAGES,
    MADE_WITH,
    check_images,
    differing,
    made_with,
    parts_of,
)
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.storage import Storage


def check_origins(
    runs: Sequence[RunConfig], storage: Storage, data_dir: Path, *, accept: bool = False
) -> list[str]:
    """Check what runs were made with so far against the images, the code and the versions of this process.

    Images that are not here are not checked, nor are processors: only a run's own machines know theirs.

    Returns:
        What has changed and is accepted, a line for each change.

    Raises:
        DataError: the images of a run have changed.
        ConfigError: code or versions have, and `accept` is false.
        NewerFormat: a newer fedgrid made them.
    """
    images: dict[str, str | None] = {}
    changed: dict[str, list[str]] = {}
    for run in runs:
        # What is damaged is said where the run is read or opened.
        with suppress(DamagedFile):
            parts = parts_of(folder_of(storage.root, run) / MADE_WITH)
            if not parts:
                continue
            before = parts[-1].made_with
            if run.dataset not in images:
                here = is_here(run.dataset, data_dir)
                images[run.dataset] = digest_of_dataset(run.dataset, data_dir) if here else None
            now = made_with(run.make_algorithm(), images[run.dataset] or before.get(IMAGES, ""))
            check_images(run.name, before, now)
            for difference in differing(before, now):
                changed.setdefault(difference, []).append(run.name)
    notes = [f"{difference}: {_counted(names)}" for difference, names in changed.items()]
    if notes and not accept:
        raise ConfigError(f"{'; '.join(notes)}; {ACCEPT}")
    return notes


def _counted(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} runs, the first {names[0]}"
