"""`fedgrid show`: a grid, or a run."""

import json
from pathlib import Path

from rich.console import Console

from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.browse.find import find_run
from fedgrid.grids.browse.grid_page import grid_facts, print_grid
from fedgrid.grids.browse.run_facts import facts_of
from fedgrid.grids.browse.run_page import print_run
from fedgrid.grids.results.grid_folder import list_grids


def show(what: str, storage: Storage, data_dir: Path, as_json: bool, console: Console) -> None:
    """Print what is known of a grid or of a run; a grid's name comes before a run's.

    Raises:
        ConfigError: if there is neither, or several runs have that name.
        RunError: if the storage cannot be read.
    """
    storage.pull_marks()
    if what in list_grids(storage):
        facts = grid_facts(what, storage)
        if not as_json:
            print_grid(facts, storage, console)
    else:
        facts = facts_of(*find_run(what, storage), storage, data_dir)
        if not as_json:
            print_run(facts, console)
    if as_json:
        print(json.dumps(facts))
