"""Write the report of a grid for `fedgrid report`: tables and figures, with those of analyses and plugins."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.style import available
from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError, suggest_name
from fedgrid.engine.runtime.plugins.plugin import Plugin, PluginSource, load_plugin, read_source
from fedgrid.engine.runtime.storage.atomic import REPEATS, disk_errors, share_with_group
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.user_files import check_output, expand_path
from fedgrid.grids.analyses.analysis import Analysis
from fedgrid.grids.analyses.report import build_sections
from fedgrid.grids.archive.explanation_records import load_published_scores
from fedgrid.grids.cli.actions.studies import PUBLISHED, filter_study, read_other, read_study
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.display.steps import StepDisplay
from fedgrid.grids.display.text_table import build_text_table
from fedgrid.grids.explain.shown.sections import build_published_sections
from fedgrid.grids.results.grid_folder import GridFolder, superseded_line
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.report import log_report
from fedgrid.tracking.figures.style import style_context
from fedgrid.tracking.papers.sections import NOTHING_PUBLISHED, build_paper_sections
from fedgrid.tracking.report.contents import build_report_page
from fedgrid.tracking.report.page import SVG_SUFFIX, CaptionedFigure, DrawingOptions, Page, PageSection
from fedgrid.tracking.report.report_files import ReportFiles, write_report_files
from fedgrid.tracking.scoring.cost import DEFAULT_TARGET, Target, Unit
from fedgrid.tracking.scoring.study import Study, format_slug
from fedgrid.tracking.tables.table import Table

if TYPE_CHECKING:
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.analyses.analysis import Analysis
    from fedgrid.tracking.report.page import DrawingOptions, Page
    from fedgrid.tracking.tables.table import Table

LACKING_SHOWN = 10
"""Most unfinished runs that are named on the terminal; the report names all."""


def read_target(text: str | None = None, unit: Unit = "bytes") -> Target:
    """Read `--target` and `--unit`: the score to reach, and the unit of its cost.

    Args:
        text: as in `personalised_accuracy=0.7`; default None: `DEFAULT`.
        unit: unit of the traffic.

    Raises:
        ConfigError: if there is no such score, or the value cannot be reached.
    """
    try:
        return replace(DEFAULT_TARGET, unit=unit) if text is None else Target.from_text(text, unit)
    except ValueError as error:
        raise ConfigError(str(error)) from error


def write_report(
    name: str,
    storage: Storage,
    against: str | None,
    target: Target,
    to: Path | None,
    as_json: bool,
    console: Console,
    steps: StepDisplay,
    plugins: Sequence[Path],
    analyses: Mapping[str, Analysis],
    *,
    superseded: bool,
    filters: Sequence[str],
    drawing: DrawingOptions,
) -> None:
    """Write the report of a grid, finished or not, and print its main tables.

    Args:
        name: the grid.
        storage: where it is.
        against: `published`, or what it is compared with; None: nothing.
        target: the score whose cost is shown.
        to: folder of the report; None: the grid's folder.
        as_json: whether one JSON object is printed in place of text.
        console: where text is printed.
        steps: shows what is being done.
        plugins: files with tables and figures of the user's own.
        analyses: those that the report can show.
        superseded: whether superseded runs are included, under titles of their own.
        filters: conditions on runs; with some, the report has a folder of its own.
        drawing: which figures are drawn, and how.

    Raises:
        ConfigError: if there is no such grid, none of its runs is finished, or a plugin fails.
        RunError: if it cannot be written, or a file of the grid is damaged.
    """
    if to is not None:
        # Before tables are computed and figures are drawn for minutes.
        check_output(to, "--to", is_folder=True)
    share_with_group(storage.root)
    storage.pull_marks()
    # A misspelt name is reported before all runs are read for seconds.
    GridFolder(storage, name).read_runs()
    # Prigent's tables count the download of a model to test, whose size is that of the model.
    unfiltered = read_study(name, storage, steps, sizes=against == PUBLISHED, superseded=superseded)
    study = filter_study(unfiltered, filters)
    other = None if against in (None, PUBLISHED) else read_other(str(against), name, storage, steps)
    grid = GridFolder(storage, name)
    steps.begin_step("Computing the tables")
    page = build_page(study, other, grid, target, plugins, analyses, published=against == PUBLISHED)
    folder = to or grid.path / "-".join(("report", *map(format_slug, filters)))
    # With `--to` the report lies outside the storage, and nothing of it goes to the storage's URI.
    written = _write_page(page, folder, steps, None if to else storage, drawing)
    if not filters:
        # The report in MLflow is of the whole grid.
        steps.begin_step("Logging the report to MLflow")
    is_logged = not filters and _log_report(name, storage, folder)
    steps.remove_line()
    if as_json:
        facts = {
            "grid": study.name,
            "runs": len(study.runs),
            "finished": len(study.finished),
            "superseded": study.superseded,
            "lacking": {run.name: run.lacking for run in study.unfinished},
            "title": page.title,
            "index": str(folder / "index.html"),
            "files": len(written.files),
            "tables": sum(1 for _ in page.list_tables()),
            "figures": written.figures,
            "mlflow": is_logged,
        }
        print(json.dumps(facts))
        return
    overview, *others = page.list_tables()
    costs = [] if target == DEFAULT_TARGET else [table for table in others if table.name.startswith("cost-")]
    for table in (overview, *costs):
        console.print(build_text_table(table))
    print_plain(console, f"{len(written.files)} files; open {folder / 'index.html'}")
    if left := sum(1 for _ in page.list_figures()) - written.figures:
        all_figures = format_command(storage, "report", name, "--all-figures")
        print_plain(console, f"{written.figures} figures are drawn; {left} more:  {all_figures}")
    if against == PUBLISHED:
        count = sum(table.name.startswith("against-") for table in page.list_tables())
        line = f"Beside the published numbers, {count} tables: {folder / 'tables' / 'against-*.md'}"
        print_plain(console, line if count else NOTHING_PUBLISHED)
    _show_lacking(study, storage, console)
    if is_logged:
        print_plain(
            console,
            f"MLflow: artifacts of the run {name}, in report/. To see it:  "
            f"{format_command(storage, 'ui', name)}",
        )


def build_usual_page(name: str, storage: Storage, steps: StepDisplay) -> Page:
    """Build the report of a grid with its usual tables and figures.

    Raises:
        ConfigError, RunError: as `write_report`.
    """
    study, grid = read_study(name, storage, steps), GridFolder(storage, name)
    return build_page(study, None, grid, DEFAULT_TARGET, (), {}, published=False)


def write_all_figures(name: str, storage: Storage, folder: Path, steps: StepDisplay) -> None:
    """Write the report of a grid with all figures into a folder, and print nothing more.

    Args:
        name: the grid.
        storage: where it is.
        folder: the folder, which is created.
        steps: shows the progress.

    Raises:
        ConfigError, RunError: as `write_report`.
    """
    _write_page(build_usual_page(name, storage, steps), folder, steps, None, read_drawing(every=True))


def _write_page(
    page: Page, folder: Path, steps: StepDisplay, storage: Storage | None, drawing: DrawingOptions
) -> ReportFiles:
    """Write a page, and push it to the URI if it lies in the mirror of a storage."""
    steps.begin_step("Drawing figures")
    with disk_errors(folder, REPEATS):
        written = write_report_files(page, folder, steps.show_count, drawing)
    if storage is not None:
        place = storage.name_path(folder)
        # In reverse, index.html last: at the URI it never refers to files that are not there yet.
        storage.push(*(f"{place}/{file}" for file in reversed(written.files)))
        storage.remove(*(f"{place}/{file}" for file in written.removed))
    return written


def _log_report(name: str, storage: Storage, folder: Path) -> bool:
    """Log the report to the grid's own MLflow run; return whether that worked."""
    try:
        is_logged = log_report(name, storage, folder)
        if is_logged is False:
            sync = format_command(storage, "sync", name)
            warn(f"MLflow has no run of the grid itself: run `{sync}`, then report again")
        return bool(is_logged)
    except TrackerFailed as error:
        warn(f"{error}; the report is written, but not in MLflow")
    return False


def _show_lacking(study: Study, storage: Storage, console: Console) -> None:
    """Print which runs are not in the report, and why."""
    if study.superseded:
        print_plain(console, superseded_line(study.name, study.superseded, storage))
    if count := len(study.unfinished):
        verb = "is" if count == 1 else "are"
        print_plain(console, f"{count} of {len(study.runs)} runs of {study.name} {verb} not in the report:")
        for run in study.unfinished[:LACKING_SHOWN]:
            print_plain(console, f"  {run.name}: {run.lacking}")
        if count > LACKING_SHOWN:
            print_plain(console, f"  and {count - LACKING_SHOWN} more, named in the report")


def build_page(
    study: Study,
    other: Study | None,
    grid: GridFolder,
    target: Target,
    plugins: Sequence[Path],
    analyses: Mapping[str, Analysis],
    *,
    published: bool,
) -> Page:
    """Build the page of `fedgrid report`, with what shelves, plugins and analyses add.

    Args:
        study: the runs.
        other: the runs of another grid to compare with; None: none.
        grid: the folder of the grid.
        target: the score whose cost is shown.
        plugins: files with tables and figures of the user's own.
        analyses: those that the report can show.
        published: whether the numbers of papers are shown next to ours.

    Raises:
        ConfigError: a plugin fails.
        RunError: a file of an analysis is damaged.
    """
    ids = {run.run_id for run in study.runs}
    pairs = {(run.scenario[:3], run.method) for run in study.runs}
    rows = (row for row in load_published_scores(grid) if (row.scenario, row.algorithm) in pairs)
    own = build_sections(analyses, grid, grid.storage, published=published, among=ids)
    page = build_report_page(
        study,
        other=other,
        published=published,
        target=target,
        papers=build_paper_sections(study) if published else (),
        analyses=(*build_published_sections([*rows]), *own),
    )
    return insert_sections(page, build_own_sections(plugins, study))


def read_drawing(every: bool = False, format: str = SVG_SUFFIX, style: str | None = None) -> DrawingOptions:
    """Read which figures are drawn, and how.

    Args:
        every: whether all figures are drawn, or only the first of alternatives; default False.
        format: written in addition to SVG; default: none.
        style: a style of matplotlib's, or its file; default None: the report's.

    Raises:
        ConfigError: there is no style of that name, and no such file.
    """
    formats = tuple(dict.fromkeys((SVG_SUFFIX, format)))
    if style is None:
        return DrawingOptions(every, formats)
    style = str(expand_path(style, "--style"))
    try:
        with style_context(style):
            return DrawingOptions(every, formats, (style,))
    except OSError as error:
        raise ConfigError(
            f"--style {style}: no such style; {suggest_name(style, available)}expected a file (.mplstyle, "
            f"matplotlibrc) or one of {', '.join(available)}"
        ) from error


@dataclass(frozen=True)
class PluginFigure:
    """A figure of a plugin, by the name of its function: another process loads the plugin and draws it."""

    source: PluginSource
    function: str
    study: Study

    def __call__(self) -> Figure:
        """Draw the figure.

        Raises:
            ConfigError: the function fails, or returns something else.
        """
        # Figures are drawn in child processes, to which a plugin's function cannot be sent: its module has no
        # name by which it could be imported there.
        plugin = load_plugin(self.source)
        [function] = [one for one in plugin.lists["FIGURES"] if one.__name__ == self.function]
        figure: Figure = _call_function(plugin, function, self.study, Figure)
        return figure


def build_own_sections(files: Iterable[Path], study: Study) -> tuple[PageSection, ...]:
    """Build a section from each file's `TABLES` and `FIGURES`; none for a file that lists neither.

    A function gets the study and returns a `Table` or a matplotlib figure. The first line of its docstring is
    a figure's title, the rest its caption.

    Raises:
        ConfigError: a file cannot be loaded, or a function fails.
    """
    sections = (_build_section(load_plugin(read_source(path)), study) for path in files)
    return tuple(section for section in sections if section.items)


def insert_sections(page: Page, sections: Sequence[PageSection]) -> Page:
    """Insert further sections into a page, after its first one.

    Raises:
        ConfigError: a table or figure has the name of another.
    """
    merged = Page(page.title, page.facts, (*page.sections[:1], *sections, *page.sections[1:]))
    tables = [f"table {table.name}" for table in merged.list_tables()]
    names = tables + [f"figure {plate.name}" for plate in merged.list_figures()]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f"the report has {min(twice)} twice; give one of your own another name")
    return merged


def _build_section(plugin: Plugin, study: Study) -> PageSection:
    """Build the section of a plugin with its tables and figures."""
    # Tables are computed now, so that their errors end the command; figures when the page is written.
    tables = [_call_function(plugin, function, study, Table) for function in plugin.lists["TABLES"]]
    plates = [_build_plate(plugin, function, study) for function in plugin.lists["FIGURES"]]
    stem = Path(plugin.source.name).stem
    return PageSection(
        f"own-{format_slug(stem)}", f"From {Path(plugin.source.name).name}", items=(*tables, *plates)
    )


def _build_plate(plugin: Plugin, function: Callable[..., Any], study: Study) -> CaptionedFigure:
    """Build a captioned figure from a plugin's function and its docstring."""
    title, _, caption = (inspect.getdoc(function) or function.__name__).partition("\n")
    text = re.sub(r"\s+", " ", caption).strip()
    draw = PluginFigure(plugin.source, function.__name__, study)
    return CaptionedFigure(f"own-{format_slug(function.__name__)}", title.rstrip("."), text, draw)


def _call_function(plugin: Plugin, function: Callable[..., Any], study: Study, kind: type[Any]) -> Any:
    """Call a plugin's function, and turn its errors into a line that names it."""
    where = f"plugin {plugin.source.name}: {function.__name__}"
    try:
        value = function(study)
    except Exception as error:
        # Any error of the user's code: its class and message help more than a traceback through fedgrid.
        raise ConfigError(f"{where} failed: {type(error).__name__}: {error}") from error
    if not isinstance(value, kind):
        raise ConfigError(f"{where} returned {type(value).__name__}; expected a {kind.__name__}")
    return value
