"""`fedgrid show`: a grid, or a run."""

import json
from pathlib import Path

from rich.console import Console

from fedgrid.engine.errors import ConfigError, RunError
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.atomic import disk_errors
from fedgrid.engine.storage.hints import command
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.browse.find import find_run
from fedgrid.grids.browse.grid_page import grid_facts, print_grid
from fedgrid.grids.browse.run_facts import facts_of
from fedgrid.grids.browse.run_page import print_run
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.tracking.records import RecordsError


def show(
    what: str,
    storage: Storage,
    data_dir: Path,
    as_json: bool,
    console: Console,
    figures: Path | None = None,
) -> None:
    """Print what is known of a grid or of a run; a grid's name comes before a run's.

    Args:
        figures: folder that a run's figures are drawn into; None: they are not drawn.

    Raises:
        ConfigError: there is neither, several runs have that name, or figures of a grid are asked for.
        RunError: the storage cannot be read, the figures cannot be written, or there is no round to draw.
    """
    storage.pull_marks()
    if what in list_grids(storage):
        if figures is not None:
            raise ConfigError(
                f"--figures draws those of a run; of a grid: `{command(storage, 'report', what)}`"
            )
        facts = grid_facts(what, storage)
        if not as_json:
            print_grid(facts, storage, console)
    else:
        run, grids = find_run(what, storage)
        facts = facts_of(run, grids, storage, data_dir)
        if not as_json:
            print_run(facts, storage, console)
        if figures is not None:
            drawn = _draw(folder_of(storage.root, run), figures)
            facts["figures"] = [str(path) for path in drawn]
            if not as_json:
                print_plain(console, f"Figures: {', '.join(facts['figures'])}")
    if as_json:
        print(json.dumps(facts))


def _draw(run_folder: Path, to: Path) -> list[Path]:
    # Imports matplotlib, which takes seconds.
    from fedgrid.tracking import figures

    try:
        with disk_errors(to):
            return figures.write(run_folder, to)
    except RecordsError as error:
        raise RunError(str(error)) from error
