"""The page of `fedgrid report`, with what shelves and plugins add, and their style."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.style import available

from fedgrid.engine.federation.errors import ConfigError, hint
from fedgrid.engine.runtime.storage.user_files import expand_path
from fedgrid.grids.analyses.analysis import Analysis
from fedgrid.grids.analyses.report import sections
from fedgrid.grids.archive.explanation_records import published_scores
from fedgrid.grids.explain.shown.sections import explanation_sections
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.own_items import add_own_items, own_items
from fedgrid.tracking.figures.style import style_context
from fedgrid.tracking.papers.sections import paper_sections
from fedgrid.tracking.report.contents import report_page
from fedgrid.tracking.report.page import SVG, Drawing, Page
from fedgrid.tracking.scoring.cost import Terms
from fedgrid.tracking.scoring.study import Study


def report_of(
    study: Study,
    other: Study | None,
    grid: GridFolder,
    terms: Terms,
    plugins: Sequence[Path],
    analyses: Mapping[str, Analysis],
    *,
    published: bool,
) -> Page:
    """Return the page of `fedgrid report`, with what shelves, plugins and analyses add.

    Raises:
        ConfigError: a plugin fails.
        RunError: a file of an analysis is damaged.
    """
    ids = {run.run_id for run in study.runs}
    pairs = {(run.scenario[:3], run.method) for run in study.runs}
    rows = (row for row in published_scores(grid) if (row.scenario, row.algorithm) in pairs)
    own = sections(analyses, grid, grid.storage, published=published, among=ids)
    page = report_page(
        study,
        other=other,
        published=published,
        terms=terms,
        papers=paper_sections(study) if published else (),
        analyses=(*explanation_sections([*rows]), *own),
    )
    return add_own_items(page, own_items(plugins, study))


def drawing_of(every: bool = False, format: str = SVG, style: str | None = None) -> Drawing:
    """Return which figures are drawn, and how; `format` is beside SVG, `style` is one of matplotlib's.

    Raises:
        ConfigError: there is no style of that name, and no such file.
    """
    formats = tuple(dict.fromkeys((SVG, format)))
    if style is None:
        return Drawing(every, formats)
    style = str(expand_path(style, "--style"))
    try:
        with style_context(style):
            return Drawing(every, formats, (style,))
    except OSError as error:
        raise ConfigError(
            f"--style {style}: no such style; {hint(style, available)}expected a file (.mplstyle, "
            f"matplotlibrc) or one of {', '.join(available)}"
        ) from error
