"""Run a grid at an S3 URI whose server fails, and compare what it stores with an undisturbed grid.

python -m tests.chaos.s3_faults --seed 0          # some minutes

The server is on loopback (`s3_server.py`). Each request fails with a probability: with 503, with half an
upload or download and a broken connection, or, three times, with a minute of silence. Once, all requests of
40 seconds fail. The grid must finish, and its runs must have the same bytes as undisturbed ones.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.chaos.s3_server import Content, serving
from tests.helpers.command_line import fedgrid, new_storage
from tests.helpers.stored_runs import CLOCKS, read_files

GRID = ("--clients", "3", "--algorithm", "fedavg", "--algorithm", "ocfl-kmeans", "training.rounds=4")
SILENCES, OUTAGE_AT, OUTAGE_SECONDS = 3, 150, 40.0
"""How often; after how many requests; for how long."""


class Faults:
    """Which request fails, and how."""

    def __init__(self, rng: random.Random, share: float) -> None:
        self._rng = rng
        self._share = share
        self._silences = SILENCES
        self._outage_ends: float | None = None

    def __call__(self, number: int, method: str) -> str:
        """Return the fault of a request."""
        if number >= OUTAGE_AT and self._outage_ends is None:
            self._outage_ends = time.monotonic() + OUTAGE_SECONDS
        if self._outage_ends is not None and time.monotonic() < self._outage_ends:
            return "503"
        if self._rng.random() >= self._share:
            return ""
        kind = self._rng.choice(["503", "truncated", "silence"])
        if kind == "silence":
            self._silences -= 1
            return "silence" if self._silences >= 0 else "503"
        return kind


def stored(content: Content, runs: set[str]) -> dict[str, bytes]:
    """Return the same of the server's objects."""
    found = {key.removeprefix("runs/"): data for key, (data, _) in content.objects.items()}
    return {
        name: data
        for name, data in found.items()
        if name.split("/")[0] in runs and Path(name).name not in CLOCKS and not name.endswith("/")
    }


def main() -> None:
    """Run both grids and say what differs."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--share", type=float, default=0.1, help="of the requests that fail")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedgrid-s3-") as name:
        folder = Path(name)
        whole = new_storage(folder / "undisturbed")
        assert fedgrid("run", *GRID, "--in-process", "--storage", whole).code == 0
        expected = read_files(whole)
        content = Content(fault=Faults(random.Random(given.seed), given.share))
        tracking = new_storage(folder / "tracking")
        settings = {
            "FEDGRID_CACHE": str(folder / "cache"),
            "MLFLOW_TRACKING_URI": f"sqlite:///{tracking}/mlflow.db",
        }
        began = time.monotonic()
        launches = 0
        with serving(content) as uri:
            code = 1
            while code and launches < 10:
                result = fedgrid("run", *GRID, "--in-process", "--storage", uri, **settings)
                code, launches = result.code, launches + 1
                print(f"launch {launches}: exit code {code}\n{result.err}", flush=True)
        found = stored(content, {path.split("/")[0] for path in expected})
        differing = [path for path in expected | found if expected.get(path) != found.get(path)]
        seconds = time.monotonic() - began
        print(f"{content.requests} requests, {content.faults} failed, {launches} launches in {seconds:.0f} s")
        print(f"{len(differing)} of {len(expected)} files differ: {differing[:3]}")
        raise SystemExit(bool(differing or code))


if __name__ == "__main__":
    main()
