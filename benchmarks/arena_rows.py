"""Compute the arena's rows without those that fedgrid ships: its `outcomes.csv` and `tuning.csv`.

    python -m benchmarks.arena_rows STORAGE [DATASET] [--families A,B] [--in-process]

The same command continues after an interruption.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from rich.console import Console

from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.arena.command import run_arena
from fedgrid.grids.arena.definition import load_arena
from fedgrid.grids.arena.stored_results import StoredResults
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.search.run import continue_search


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the arena of a data set into a storage."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("storage")
    parser.add_argument("dataset", nargs="?")
    parser.add_argument("--families", action="append", default=[])
    parser.add_argument("--in-process", action="store_true")
    given = parser.parse_args(arguments)
    options = LaunchOptions(default_data_dir(), in_process=given.in_process)
    launcher = Launcher(Storage.from_text(given.storage), options, Console())
    arena = load_arena(None, given.dataset, [], (), 8, options.data_dir, only=given.families)
    search = partial(continue_search, storage=launcher.storage, options=options, console=launcher.console)
    result = run_arena(arena, StoredResults(), launcher, search)
    sys.exit(bool(result.failures or result.stopped))


if __name__ == "__main__":
    main()
