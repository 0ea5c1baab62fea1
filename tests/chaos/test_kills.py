"""One kill of a small grid, and the same command again; twenty: python -m tests.chaos.kills."""

from random import Random

import pytest

from tests.chaos.kills import disturbed, mlflow_faults, undamaged
from tests.helpers.command_line import fedgrid, new_storage

ROUNDS = 10
GRID = f"""
clients: 4
algorithm: ocfl-kmeans
training: {{rounds: {ROUNDS}}}
"""


@pytest.mark.ray
@pytest.mark.slow
def test_killed_grid_ends_with_the_same_bytes(tmp_path):
    """The driver is killed, with a Ray cluster that it started itself; the same command starts another one.

    Servers and client actors: grids/execution/test_trials.py and engine/test_faults.py.
    """
    grid, log = tmp_path / "small.yaml", tmp_path / "errors.txt"
    grid.write_text(GRID)
    whole, killed = new_storage(tmp_path / "whole"), new_storage(tmp_path / "killed")
    assert fedgrid("run", grid, "--in-process", "--storage", whole).code == 0
    seen, launches = disturbed(grid, killed, log, 1, 2, Random(1), "--clients-per-actor", "4")
    assert (launches, seen.failed) == (2, []), log.read_text()
    assert seen.repeated == 0, "a round that was reported is not computed again"
    assert undamaged(killed) == undamaged(whole)
    assert mlflow_faults(killed, "small", ROUNDS) == []
