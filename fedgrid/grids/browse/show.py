"""`fedgrid show`: a grid, or a run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.engine.runtime.storage.user_files import check_output
from fedgrid.grids.browse.annotate import annotate
from fedgrid.grids.browse.find import find_run
from fedgrid.grids.browse.grid_page import show_grid
from fedgrid.grids.browse.run_facts import facts_of
from fedgrid.grids.browse.run_page import print_run
from fedgrid.grids.browse.runs import EVERY, RunList
from fedgrid.grids.display import figure_file
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.tracking.records import RecordsError, read_records

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def show(
    what: str,
    storage: Storage,
    data_dir: Path,
    as_json: bool,
    console: Console,
    *,
    runs: RunList = EVERY,
    figure: Path | None = None,
    tags: Sequence[str] = (),
    note: str | None = None,
) -> None:
    """Print what is known of a grid or of a run; a grid's name comes before a run's.

    Args:
        what: a grid, or a run as for `find_run`.
        runs: which runs of a grid are listed, and how.
        figure: the file that a run's figure is written to; None: none is drawn.
        tags, note: are written on a run first, as for `Annotations.changed`.

    Raises:
        ConfigError: there is neither, several runs have that name, or an option is for the other of them.
        DataError: the figure cannot be written.
        RunError: the storage cannot be read, or there is no round to draw.
    """
    if figure is not None:
        figure_file.check_format(figure)
        check_output(figure, "--figure")
    storage.pull_marks()
    if what in list_grids(storage):
        if figure is not None or tags or note is not None:
            raise ConfigError(
                f"--figure, --note and --tag are for a run, and {what} is a grid: "
                f"`{command(storage, 'show', what)}` lists its runs with their ids"
            )
        show_grid(what, runs, storage, as_json, console)
        return
    run, grids = find_run(what, storage)
    if runs != EVERY:
        raise ConfigError(f"--where, --sort, --columns and --csv list a grid's runs, and {what} is a run")
    if tags or note is not None:
        annotate(run, grids, tags, note, storage, console)
    facts = facts_of(run, grids, storage, data_dir)
    if not as_json:
        print_run(facts, storage, console)
    if figure is not None:
        figure_file.draw(figure, lambda: _figure(folder_of(storage.root, run)))
        facts["figure"] = str(figure)
        if not as_json:
            print_plain(console, f"Written to {figure}")
    if as_json:
        print(json.dumps(facts))


def _figure(run_folder: Path) -> "Figure":
    from fedgrid.tracking import figures

    try:
        return figures.run_figure(read_records(run_folder))
    except RecordsError as error:
        raise RunError(str(error)) from error
