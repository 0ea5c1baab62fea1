"""One kill of a small grid, and the same command again; twenty: python tests/chaos/kills.py."""

import subprocess
import sys
from pathlib import Path

import pytest

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
    script = Path(__file__).with_name("kills.py")
    command = [sys.executable, script, "--kills", "1", "--seed", "1", "--grid", grid, "--in-process"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("1 kills, 0 files differ of ")
    assert ", 0 faults in MLflow, 0 runs failed, " in last
