"""Measure the overhead of a run beyond its rounds: many runs of one small round each, after a warm-up.

python -m benchmarks.scheduling [--runs 280]
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.options import build_parser
from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.ray_cluster.cluster import connect_to_ray
from fedgrid.grids.results.times import read_times

WARM_RUNS = 4


def main(arguments: Sequence[str] | None = None) -> None:
    """Launch the runs through Ray Tune and print the seconds per run."""
    parser = build_parser(__doc__, "two runs after one")
    parser.add_argument("--runs", type=int, default=280)
    given = parser.parse_args(arguments)
    warm_runs, runs = (1, 2) if given.quick else (WARM_RUNS, given.runs)
    options = LaunchOptions(default_data_dir(), as_json=True)
    console = Console(quiet=True)
    with tempfile.TemporaryDirectory() as folder, connect_to_ray():
        storage = Storage.from_text(Path(folder) / "runs")

        def launch_runs(first: int, last: int) -> float:
            values = {"algorithm": "fedavg", "seed": list(range(first, last))}
            grid = load_grid(None, values, ["training.rounds=1", "training.local_epochs=1"], options.data_dir)
            began = time.perf_counter()
            Launcher(storage, options, console).run_unfinished(grid)
            seconds = time.perf_counter() - began
            rounds = sum(read_times(build_folder_path(storage.root, run)).seconds for run in grid.runs)
            print(f"{len(grid.runs)} runs of one round: {seconds:.1f} s, rounds alone {rounds:.1f} s")
            return seconds

        # The first launch starts Ray's workers and imports torch in them, once for all later ones.
        launch_runs(0, warm_runs)
        seconds = launch_runs(warm_runs, warm_runs + runs)
    print(f"{seconds / runs:.2f} s per run, start of the actors included")


if __name__ == "__main__":
    main()
