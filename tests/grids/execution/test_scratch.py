"""The temporary folder of a driver."""

import subprocess
import sys
from pathlib import Path

from fedgrid.grids.execution.scratch import scratch

KILLED = """
import os, signal
from fedgrid.grids.execution.scratch import scratch
with scratch() as folder:
    print(folder, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_folder_of_a_killed_driver_is_deleted_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    killed = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    left = Path(killed.stdout.strip())
    assert left.is_dir()
    (left / "tune").mkdir()
    with scratch() as first, scratch() as second:
        assert not left.exists()
        assert sorted(map(str, tmp_path.iterdir())) == sorted([first, second]), (
            "a living driver keeps its own"
        )
    assert list(tmp_path.iterdir()) == []
