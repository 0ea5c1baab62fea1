"""The overhead of a run beyond its rounds: many runs of one small round each, after a warm-up.

python -m benchmarks.scheduling [--runs 280]
"""

import argparse
import tempfile
import time
from pathlib import Path

from rich.console import Console

from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.run.run_folder import folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run import Launcher
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.ray_cluster.cluster import connected
from fedgrid.grids.results.times import times_of

WARM_RUNS = 4


def main() -> None:
    """Launch the runs through Ray Tune and print the seconds per run."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=280)
    runs = options.parse_args().runs
    how = LaunchOptions(default_data_dir(), as_json=True)
    console = Console(quiet=True)
    with tempfile.TemporaryDirectory() as folder, connected():
        storage = Storage.of(Path(folder) / "runs")

        def launch(first: int, last: int) -> float:
            values = {"algorithm": "fedavg", "seed": list(range(first, last))}
            grid = load_grid(None, values, ["training.rounds=1", "training.local_epochs=1"], how.data_dir)
            began = time.perf_counter()
            Launcher(storage, how, console).run(grid)
            seconds = time.perf_counter() - began
            rounds = sum(times_of(folder_of(storage.root, run)).seconds for run in grid.runs)
            print(f"{len(grid.runs)} runs of one round: {seconds:.1f} s, rounds alone {rounds:.1f} s")
            return seconds

        launch(0, WARM_RUNS)
        seconds = launch(WARM_RUNS, WARM_RUNS + runs)
    print(f"{seconds / runs:.2f} s per run, start of the actors included")


if __name__ == "__main__":
    main()
