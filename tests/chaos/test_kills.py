"""Three kills of a small grid, and the same command again each time; twenty: python tests/chaos/kills.py."""

import subprocess
import sys
from pathlib import Path

import pytest

GRID = """
clients: 4
algorithm: [bnc, ocfl-kmeans, {name: briggs, round: 3}]
training: {rounds: 10}
"""


@pytest.mark.ray
@pytest.mark.slow
def test_a_grid_that_is_killed_three_times_ends_with_the_same_bytes(tmp_path):
    """The driver, a run's server and a client actor."""
    grid = tmp_path / "small.yaml"
    grid.write_text(GRID)
    script = Path(__file__).with_name("kills.py")
    command = [sys.executable, script, "--kills", "3", "--seed", "1", "--grid", grid, "--in-process"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("3 kills, 0 files differ of ")
    assert ", 0 faults in MLflow, 0 runs failed, " in last
