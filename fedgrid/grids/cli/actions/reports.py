"""Write the pages of `fedgrid report`: tables and figures of a grid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.atomic import REPEATS, disk_errors, share_with_group
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.user_files import check_output
from fedgrid.grids.cli.actions.report_page import drawing_of, report_of
from fedgrid.grids.cli.actions.studies import PUBLISHED, filter_study, read_other, read_study
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.steps import Steps
from fedgrid.grids.display.text_table import page_table
from fedgrid.grids.results.grid_folder import GridFolder, superseded_line
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.report import log_report
from fedgrid.tracking.papers.sections import NOTHING_PUBLISHED
from fedgrid.tracking.report.write import Written, write
from fedgrid.tracking.scoring.cost import AS_USUAL, DEFAULT, Target, Terms, Unit
from fedgrid.tracking.scoring.study import Study, slug

if TYPE_CHECKING:
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.analyses.analysis import Analysis
    from fedgrid.tracking.report.page import Drawing, Page
    from fedgrid.tracking.tables.table import Table

LACKING_SHOWN = 10
"""How many unfinished runs are named on the terminal; the report names all."""


def terms_of(target: str | None = None, unit: Unit = "bytes") -> Terms:
    """Return what `--target` and `--unit` ask for.

    Raises:
        ConfigError: if there is no such score, or the value cannot be reached.
    """
    try:
        return Terms(DEFAULT if target is None else Target.parse(target), unit)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def write_report(
    name: str,
    storage: Storage,
    against: str | None,
    terms: Terms,
    to: Path | None,
    as_json: bool,
    console: Console,
    steps: Steps,
    plugins: Sequence[Path],
    analyses: Mapping[str, Analysis],
    *,
    superseded: bool,
    filters: Sequence[str],
    drawing: Drawing,
) -> None:
    """Write the report of a grid, finished or not; `plugins` have tables and figures of the user's own.

    `analyses` are those that it can show. `superseded` runs are in it only if asked for,
    under titles of their own. With `filters` it is of some runs, and has a folder of its own.

    Raises:
        ConfigError: if there is no such grid, none of its runs is finished, or a plugin fails.
        RunError: if it cannot be written, or a file of the grid is damaged.
    """
    if to is not None:
        check_output(to, "--to", is_folder=True)
    share_with_group(storage.root)
    storage.pull_marks()
    # Before one is read for seconds.
    GridFolder(storage, name).runs()
    # Prigent's tables count the download of a model to test, whose size is that of the model.
    whole = read_study(name, storage, steps, sizes=against == PUBLISHED, superseded=superseded)
    study = filter_study(whole, filters)
    other = None if against in (None, PUBLISHED) else read_other(str(against), name, storage, steps)
    grid = GridFolder(storage, name)
    steps.say("Computing the tables")
    page = report_of(study, other, grid, terms, plugins, analyses, published=against == PUBLISHED)
    folder = to or grid.path / "-".join(("report", *map(slug, filters)))
    written = _write(page, folder, steps, None if to else storage, drawing)
    if not filters:
        # The report in MLflow is of the whole grid.
        steps.say("Logging the report to MLflow")
    is_logged = not filters and _log(name, storage, folder)
    steps.pause()
    if as_json:
        print(json.dumps({**_grid_facts(study), **_page_facts(page, folder, written), "mlflow": is_logged}))
        return
    asked = () if terms == AS_USUAL else tuple(t for t in page.tables() if t.name.startswith("cost-"))
    _show((next(page.tables()), *asked), folder, written, console)
    if left := sum(1 for _ in page.plates()) - written.figures:
        all_figures = command(storage, "report", name, "--all-figures")
        print_plain(console, f"{written.figures} figures are drawn; {left} more:  {all_figures}")
    if against == PUBLISHED:
        count = sum(table.name.startswith("against-") for table in page.tables())
        line = f"Beside the published numbers, {count} tables: {folder / 'tables' / 'against-*.md'}"
        print_plain(console, line if count else NOTHING_PUBLISHED)
    _show_lacking(study, storage, console)
    if is_logged:
        print_plain(
            console,
            f"MLflow: artifacts of the run {name}, in report/. To see it:  {command(storage, 'ui', name)}",
        )


def usual_page(name: str, storage: Storage, steps: Steps) -> Page:
    """Return the report of a grid, with its usual tables and figures.

    Raises:
        ConfigError, RunError: as `write_report`.
    """
    study, grid = read_study(name, storage, steps), GridFolder(storage, name)
    return report_of(study, None, grid, terms_of(), (), {}, published=False)


def write_pages(name: str, storage: Storage, folder: Path, steps: Steps) -> None:
    """Write the report of a grid with all figures into a folder, and say nothing more.

    Raises:
        ConfigError, RunError: as `write_report`.
    """
    _write(usual_page(name, storage, steps), folder, steps, None, drawing_of(every=True))


def _write(page: Page, folder: Path, steps: Steps, storage: Storage | None, drawing: Drawing) -> Written:
    """Write a page, and copy it from the mirror to the URI of a storage that it lies in, index.html last."""
    steps.say("Drawing figures")
    with disk_errors(folder, REPEATS):
        written = write(page, folder, steps.count, drawing)
    if storage is not None:
        place = folder.relative_to(storage.root).as_posix()
        storage.push(*(f"{place}/{file}" for file in reversed(written.files)))
        storage.remove(*(f"{place}/{file}" for file in written.removed))
    return written


def _log(name: str, storage: Storage, folder: Path) -> bool:
    """Log the report to the grid's own MLflow run; return whether that worked."""
    try:
        is_logged = log_report(name, storage, folder)
        if is_logged is False:
            sync = command(storage, "sync", name)
            warn(f"MLflow has no run of the grid itself: run `{sync}`, then report again")
        return bool(is_logged)
    except TrackerFailed as error:
        warn(f"{error}; the report is written, but not in MLflow")
    return False


def _grid_facts(study: Study) -> dict[str, Any]:
    """Return what `--json` prints about a grid."""
    return {
        "grid": study.name,
        "runs": len(study.runs),
        "finished": len(study.finished),
        "superseded": study.superseded,
        "lacking": {run.name: run.lacking for run in study.unfinished},
    }


def _page_facts(page: Page, folder: Path, written: Written) -> dict[str, Any]:
    """Return what `--json` prints about a page."""
    return {
        "title": page.title,
        "index": str(folder / "index.html"),
        "files": len(written.files),
        "tables": sum(1 for _ in page.tables()),
        "figures": written.figures,
    }


def _show(tables: Sequence[Table], folder: Path, written: Written, console: Console) -> None:
    for table in tables:
        console.print(page_table(table))
    print_plain(console, f"{len(written.files)} files; open {folder / 'index.html'}")


def _show_lacking(study: Study, storage: Storage, console: Console) -> None:
    if study.superseded:
        print_plain(console, superseded_line(study.name, study.superseded, storage))
    if count := len(study.unfinished):
        verb = "is" if count == 1 else "are"
        print_plain(console, f"{count} of {len(study.runs)} runs of {study.name} {verb} not in the report:")
        for run in study.unfinished[:LACKING_SHOWN]:
            print_plain(console, f"  {run.name}: {run.lacking}")
        if count > LACKING_SHOWN:
            print_plain(console, f"  and {count - LACKING_SHOWN} more, named in the report")
