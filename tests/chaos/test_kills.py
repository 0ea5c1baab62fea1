"""One kill of a small grid, and the same command again; twenty: python -m tests.chaos.kills."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GRID = """
clients: 4
algorithm: ocfl-kmeans
training: {rounds: 10}
"""


@pytest.mark.ray
@pytest.mark.slow
def test_killed_grid_ends_with_the_same_bytes(tmp_path):
    """The driver is killed; tests of servers and client actors that are killed stand beside these."""
    grid = tmp_path / "small.yaml"
    grid.write_text(GRID)
    command = [sys.executable, "-m", "tests.chaos.kills", "--kills", "1", "--seed", "1"]
    command += ["--grid", str(grid), "--in-process"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("1 kills, 0 files differ of ")
    assert ", 0 faults in MLflow, 0 runs failed, " in last
