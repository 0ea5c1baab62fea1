"""`fedgrid import`: converts the authors' archive to runs in a storage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.leases.storage_id import claim
from fedgrid.grids.archive import explanation_records, layout, one_run, training_records
from fedgrid.grids.archive.centralised import read_training
from fedgrid.grids.archive.configs import config_of
from fedgrid.grids.archive.explanations import read_explanations
from fedgrid.grids.archive.keep import forget, keep
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.summary import write_summary
from fedgrid.grids.planning.claims import of_import
from fedgrid.grids.results.archived import is_archived
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.trackers.follow import Trackers
from fedgrid.redaction import redacted
from fedgrid.tracking.mlflow.store import tracking_uri

if TYPE_CHECKING:
    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.archive.layout import Found

TEXT = """\
# Runs of the OCFL papers' authors, read from their archive by `fedgrid import`. None of them was run here.
# The archive has no seeds: seed 0 stands for the run of the tables, 1 for the one made for its temperature.
hidden_groups: {truth}
"""
TRUTH = {False: "those of the images", True: "published (bloodmnist-30-overlapping-imbalanced as 7/14/9)"}

F = TypeVar("F")
R = TypeVar("R")


@dataclass
class Imported:
    """A grid of archived runs."""

    name: str
    found: Sequence[Found]
    trackers: Trackers
    runs: list[RunConfig] = field(default_factory=list)
    imported: int = 0
    """How many of `runs` were not in the storage, or had other records."""
    absent: Counter[tuple[str, ...]] = field(default_factory=Counter)
    """Names of absent files -> number of runs that lack them."""


def import_archive(
    path: Path, name: str, storage: Storage, *, published_truth: bool, as_json: bool, console: Console
) -> None:
    """Import the archive in `path` as grid `name`, and its temperature runs as grid `name`-temperature.

    A run that is there already, with the same records, is left alone. The archive's centralised trainings and
    scores of explanations go into the folder of grid `name`. What else there is, is skipped, and named.

    Raises:
        ConfigError, DataError: if this is not an archive, or a file is malformed; runs imported before stay.
        RunError: if the storage cannot be written.
    """
    layout.check(path)
    found = {name: layout.experiments(path), f"{name}-temperature": layout.temperatures(path)}
    text = TEXT.format(truth=TRUTH[published_truth])
    grids = [
        Imported(name, runs, Trackers(name, storage, warn, text=text)) for name, runs in found.items() if runs
    ]
    if not grids:
        raise ConfigError(
            f"{path} has folders of the authors' archive, but no run in them; unpack the whole archive"
        )
    trainings = list(_readable(read_training, layout.trainings(path)))
    rows = [row for rows in _readable(read_explanations, layout.explanations(path)) for row in rows]
    storage.pull_marks()
    storage.check_writable()
    for grid in grids:
        _check_is_archived(grid.name, storage)
    with Lease(storage, name, of_import(f"{name}-temperature"), warn) as lease:
        claim(storage)
        for grid in grids:
            for run in grid.found:
                lease.check()
                imported = _import(run, grid, path, storage, published_truth=published_truth)
                if not as_json:
                    print_plain(console, imported)
        with nullcontext() if as_json else console.status("Writing to MLflow ..."):
            for grid in grids:
                _conclude(grid, text, storage)
            training_records.keep(trainings, GridFolder(storage, name))
            explanation_records.keep(rows, GridFolder(storage, name))
    of_trainings = [f"{training.dataset}: {training.name}" for training in trainings]
    if as_json:
        others = {"centralised": of_trainings, "explanations": len(rows), "storage": str(storage)}
        print(json.dumps({"grids": [_as_dict(grid) for grid in grids], **others}))
    else:
        _show(grids, of_trainings, len(rows), storage, console)


def _readable(read: Callable[[F], R], files: Iterable[F]) -> Iterator[R]:
    """Yield the content of the files that can be read; the others are named and skipped."""
    for each in files:
        try:
            yield read(each)
        except DataError as error:
            warn(f"skipped: {error}")


def _check_is_archived(name: str, storage: Storage) -> None:
    """Check that a grid of that name has only archived runs."""
    folder = GridFolder(storage, name)
    own = sum(not is_archived(run) for run in _runs_before(folder))
    if own:
        raise ConfigError(f"grid {name} has {own} runs that are not from the archive; choose another --name")


def _runs_before(folder: GridFolder) -> tuple[RunConfig, ...]:
    return folder.every() if folder.is_there else ()


def _import(found: Found, grid: Imported, path: Path, storage: Storage, *, published_truth: bool) -> str:
    """Import a run; return in words what was done."""
    run = one_run.read_run(found, published_truth=published_truth)
    config = config_of(found, run.rounds.num_rows)
    source = Path(path.resolve().name) / found.folder.relative_to(path)
    is_new = keep(run, config, source.as_posix(), storage)
    grid.runs.append(config)
    grid.imported += is_new
    grid.absent[run.absent] += 1
    return f"{config.name}: {'imported' if is_new else 'unchanged'}"


def _conclude(grid: Imported, text: str, storage: Storage) -> None:
    """Write the grid's folder, and log to MLflow what it lacks."""
    folder = GridFolder(storage, grid.name)
    names, ids = {run.name for run in grid.runs}, {run.run_id for run in grid.runs}
    # These runs had another number of rounds in an earlier version of the archive.
    replaced = [run for run in _runs_before(folder) if run.name in names and run.run_id not in ids]
    untold = grid.trackers.lacking(grid.runs)
    grid.trackers.forget([*replaced, *untold])
    for run in replaced:
        forget(run, storage)
    folder.keep(grid.runs, text)
    summary = write_summary(folder.runs(), storage, folder.path)
    storage.push(summary.relative_to(storage.root).as_posix())
    with grid.trackers:
        grid.trackers.catch_up(untold)
        grid.trackers.summary([summary], sum(is_finished(storage, run) for run in folder.runs()), 0)


def _as_dict(grid: Imported) -> dict[str, object]:
    return {
        "grid": grid.name,
        "runs": len(grid.runs),
        "imported": grid.imported,
        "unchanged": len(grid.runs) - grid.imported,
        "scenarios": len({run.scenario for run in grid.runs}),
        "algorithms": len({run.algorithm["name"] for run in grid.runs}),
        "absent": [
            {"files": list(names), "runs": count} for names, count in sorted(grid.absent.items()) if names
        ],
        "mlflow": redacted(tracking_uri(grid.trackers.grid.storage.root)),
    }


def _show(
    grids: Sequence[Imported], trainings: Sequence[str], explained: int, storage: Storage, console: Console
) -> None:
    say = partial(print_plain, console)
    for grid in grids:
        numbers = _as_dict(grid)
        say(
            f"{grid.name}: {numbers['runs']} runs (scenarios: {numbers['scenarios']}, algorithms: "
            f"{numbers['algorithms']}); {numbers['imported']} imported, {numbers['unchanged']} unchanged"
        )
        for names, count in sorted(grid.absent.items()):
            if names:
                say(f"  absent in {count} of them: {', '.join(names)}")
    if trainings:
        show = f"fedgrid analyse centralised epsilons --storage {quote(str(storage))}"
        say(f"centralised trainings: {len(trainings)}; `{show}` shows them beside your own")
    if explained:
        say(f"scores of explanations: {explained} models; `fedgrid report` has their tables")
    say(f"Written to {storage}")
    say(f"MLflow store: {redacted(tracking_uri(storage.root))}")
    for grid in grids:
        say(f"Next:  fedgrid report {quote(grid.name)} --storage {quote(str(storage))}")
