"""Count the optimizer steps that a client takes in a round, and the rounds of training that 45 steps are.

    python -m benchmarks.local_steps arena-digits
    python -m benchmarks.local_steps arena-digits --where split=dirichlet --seeds 0..4 split.alpha=0.5

Nothing is trained: the images are dealt out, and a step is a batch.
"""

import argparse
from collections.abc import Sequence
from math import ceil
from pathlib import Path

import numpy as np

from fedgrid.engine.runtime.data.datasets import default_data_dir
from fedgrid.engine.runtime.run.prepare import find_partition
from fedgrid.grids.arena.definition import BUDGET
from fedgrid.grids.presets.load import load_grid


def main(arguments: Sequence[str] | None = None) -> None:
    """Print, for each kind of split, the steps a round and in all, and how many rounds the budget is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", help="A preset or a YAML file.")
    parser.add_argument("--seeds")
    parser.add_argument("--where", action="append", default=[])
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE of the runs.")
    parser.add_argument("--data", type=Path, default=default_data_dir())
    given = parser.parse_intermixed_args(arguments)
    grid = load_grid(given.what, {}, given.overrides, given.data, filters=given.where, seeds=given.seeds)
    federations = {(run.split, run.clients, run.seed): run for run in grid.runs}
    steps: dict[str, list[int]] = {}
    for run in federations.values():
        held = [len(positions) for positions in find_partition(run, given.data, 0).train_K]
        each = [run.training.local_epochs * ceil(count / run.training.batch_size) for count in held]
        steps.setdefault(run.split.kind, []).extend(each)
    rounds = max(run.training.rounds for run in grid.runs)
    for kind, counts in steps.items():
        mean = float(np.mean(counts))
        a_round = f"{mean:.2f} steps a round ({min(counts)} to {max(counts)})"
        print(f"{kind}: {a_round}, {rounds * mean:.1f} in {rounds}; {BUDGET} are {BUDGET / mean:.2f} rounds")


if __name__ == "__main__":
    main()
