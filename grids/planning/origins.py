"""Checks before a launch that the runs of a grid were made with what is here, finished runs too."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from fedgrid.algorithms.contract.base import Algorithm
from fedgrid.engine.configuration.algorithm_of import algorithm_of
from fedgrid.engine.configuration.run_config import RunConfig
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
    digests: dict[str, str | None] = {}
    changed: dict[str, list[str]] = {}
    for run in runs:
        # What is damaged is said where the run is read or opened.
        with suppress(DamagedFile):
            path = folder_of(storage.root, run) / MADE_WITH
            for difference in _differences(
                run.name, path, run.dataset, partial(algorithm_of, run), data_dir, digests
            ):
                changed.setdefault(difference, []).append(run.name)
    notes = [
        f"{difference}: {names[0] if len(names) == 1 else f'{len(names)} runs, the first {names[0]}'}"
        for difference, names in changed.items()
    ]
    return _accepted(notes, accept)


def check_centralised(
    name: str, dataset: str, folder: Path, data_dir: Path, *, accept: bool = False
) -> list[str]:
    """Check what a centralised training in `folder` was made with so far, as `check_origins` does a run.

    Raises:
        DamagedFile: `made_with.json` is damaged, and `accept` is false.
    """
    try:
        found = _differences(name, folder / MADE_WITH, dataset, lambda: None, data_dir, {})
    except DamagedFile as error:
        if not accept:
            raise DamagedFile(folder / MADE_WITH, f"{error.why}; {ACCEPT}") from error
        return [str(error)]
    return _accepted([f"{difference}: {name}" for difference in found], accept)


def _differences(
    name: str,
    path: Path,
    dataset: str,
    algorithm: Callable[[], Algorithm | None],
    data_dir: Path,
    digests: dict[str, str | None],
) -> list[str]:
    """Return in words what has changed since the file at `path`; `digests` are those of data sets so far.

    Raises:
        DataError: the images have.
    """
    parts = parts_of(path)
    if not parts:
        return []
    before = parts[-1].made_with
    if dataset not in digests:
        here = is_here(dataset, data_dir)
        digests[dataset] = digest_of_dataset(dataset, data_dir) if here else None
    now = made_with(algorithm(), digests[dataset] or before.get(IMAGES, ""))
    check_images(name, before, now)
    return differing(before, now)


def _accepted(notes: list[str], accept: bool) -> list[str]:
    if notes and not accept:
        raise ConfigError(f"{'; '.join(notes)}; {ACCEPT}")
    return notes
