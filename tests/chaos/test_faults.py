"""Short forms of the scripts beside: a disk that fails at a few writes, an S3 server that fails often."""

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from tests.chaos.s3_server import Content, serving
from tests.helpers.time import FakeTime

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(which("cc") is None, reason="needs a C compiler")
def test_grid_on_a_full_disk_says_so_and_goes_on_to_the_same_bytes():
    """Full from a write in the middle of a run; every write: disk_errors.py."""
    command = [sys.executable, "-m", "tests.chaos.disk_errors", "--errors", "ENOSPC", "--ways", "full"]
    done = subprocess.run([*command, "--every", "400"], cwd=CHECKOUT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("1 cases of "), done.stdout
    assert done.stdout.splitlines()[-1].endswith(", 0 wrong")


def test_storage_behind_an_s3_server_that_fails_every_third_request_is_the_same_bytes(tmp_path, monkeypatch):
    """503s, and connections that break in the middle; a minute of silence and an outage: s3_faults.py."""
    rng, time = random.Random(0), FakeTime()
    content = Content(fault=lambda number, method: rng.choice(["", "", "503", "", "", "truncated"]))
    files = {
        f"run/{name}": rng.randbytes(size) for name, size in (("small", 10), ("large", 300_000), ("empty", 0))
    }

    def machine(name, uri):
        monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / name))
        storage = Storage.from_text(uri).with_patience()
        return replace(storage, patience=replace(storage.patience, clock=time.clock))

    with serving(content) as uri:
        here, there = machine("here", uri), machine("there", uri)
        for name, data in files.items():
            (here.root / name).parent.mkdir(parents=True, exist_ok=True)
            (here.root / name).write_bytes(data)
        here.push(*files)
        there.pull("run")
        assert {name: (there.root / name).read_bytes() for name in files} == files
        here.remove("run/large")
        there.pull("run")
        assert sorted(path.name for path in (there.root / "run").iterdir()) == ["empty", "small"]
    assert content.faults > 5
