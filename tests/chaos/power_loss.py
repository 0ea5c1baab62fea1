"""Cut the power after each step of two runs, restart them, and compare with undisturbed ones.

python -m tests.chaos.power_loss --seed 0

Every flush, rename, link, deletion and new folder is recorded, with all files as they are then. A power cut
after any of these steps leaves: the steps before it; of a file that was flushed, what was flushed; of any
other file nothing, half or all of its bytes, drawn with the seed. In a second pass the last rename before
the cut is lost too, though later steps have reached the disk: nothing flushes the folders. After each cut the
same runs are given again. At the end, their files must be the same bytes as without a cut, except for those
with times in them.
"""

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any
from unittest.mock import patch

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.leases.processes import read_start_time
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.engine.runtime.run import records
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished

CLOCKS = ("timings.parquet", "manifest.json", "manifest-before.json", "log.txt")
GRID = "power"
SEGMENT_ROWS = 8
"""Of six clients a round: the last round of three is in a segment, and joined at the end."""
STEPS = ("replace", "rename", "link", "unlink", "mkdir", "rmdir")
NOWHERE = Path("no-data-needed")


@dataclass(frozen=True)
class Content:
    """A file at some moment."""

    data: bytes
    flushed: bytes | None
    """What of it was flushed last; None if nothing was."""


@dataclass(frozen=True)
class Moment:
    """The storage after a step."""

    step: str
    files: Mapping[str, Content]
    renamed: str | None = None
    """The new name of a file that the step has renamed."""


@dataclass
class Disk:
    """Records what happens in a folder."""

    root: Path
    moments: list[Moment] = field(default_factory=list)
    _flushed: dict[int, bytes] = field(default_factory=dict)
    _lock: Any = field(default_factory=RLock)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record the steps of this process within the block."""
        with patch.multiple(os, fsync=self._fsync, **{name: self._recorded(name) for name in STEPS}):
            yield

    def _fsync(self, handle: int, plain: Any = os.fsync) -> None:
        with self._lock:
            plain(handle)
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            if path.is_file():
                self._flushed[os.fstat(handle).st_ino] = path.read_bytes()
            self._look(f"flush {path.name}")

    def _recorded(self, name: str) -> Any:
        plain = getattr(os, name)

        def step(*given: Any, **more: Any) -> Any:
            with self._lock:
                if name in ("replace", "rename", "unlink"):
                    self._forget(given[-1])
                plain(*given, **more)
                is_rename = name in ("replace", "rename") and Path(given[1]).is_relative_to(self.root)
                self._look(name, os.path.relpath(given[1], self.root) if is_rename else None)

        return step

    def _forget(self, path: Any) -> None:
        """The file at `path` goes; its inode may be given to another."""
        with suppress(OSError, TypeError):
            self._flushed.pop(os.stat(path).st_ino, None)

    def _look(self, step: str, renamed: str | None = None) -> None:
        files = {}
        for path in sorted(self.root.rglob("*")):
            with suppress(FileNotFoundError):
                if path.is_file():
                    flushed = self._flushed.get(path.stat().st_ino)
                    files[str(path.relative_to(self.root))] = Content(path.read_bytes(), flushed)
        self.moments.append(Moment(step, files, renamed))


def runs() -> list[RunConfig]:
    """Return two runs that share their first round."""
    given = {
        "clients": 6,
        "training": {"rounds": 3, "local_epochs": 1},
        "split": {"draws": 40, "server_images": 50},
    }
    return [complete_config({**given, "algorithm": name}, NOWHERE) for name in ("fedavg", "ocfl-kmeans")]


def work(root: Path) -> None:
    """Do what a driver does: note the grid, and take each run that is not finished to its end."""
    storage = Storage.from_text(root)
    GridFolder(storage, GRID).keep(runs(), "dataset: digits\n")
    session = Session(InProcessPool(), NOWHERE, cache=CacheOptions())
    for run in runs():
        if not is_finished(storage, run):
            for _ in run_to_end(session, run, storage, lambda: False):
                pass
    session.wait_for_writes()


def results(root: Path) -> dict[str, bytes]:
    """Return the files of runs and grids, except those with times; what was set aside does not count."""
    folders = [*root.glob("digits-*"), root / "grids"]
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(root)): path for path in paths}
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if path.name not in CLOCKS and "damaged-" not in name and ".writing-" not in name
    }


def cut(moments: list[Moment], number: int, rng: random.Random, *, loses_rename: bool) -> dict[str, bytes]:
    """Return the files that a power cut after step `number` leaves."""
    files = dict(moments[number].files)
    if loses_rename:
        last = next((at for at in range(number, 0, -1) if moments[at].renamed is not None), None)
        if last is not None:
            name = str(moments[last].renamed)
            files.pop(name, None)
            if name in moments[last - 1].files:
                files[name] = moments[last - 1].files[name]
    return {name: _left(content, rng) for name, content in files.items()}


def _left(content: Content, rng: random.Random) -> bytes:
    if content.flushed == content.data:
        return content.data
    kept = content.flushed or b""
    if not content.data.startswith(kept):
        return rng.choice([kept, content.data])
    more = len(content.data) - len(kept)
    return content.data[: len(kept) + rng.choice([0, more // 2, more])]


def restarted(files: Mapping[str, bytes], expected: Mapping[str, bytes]) -> list[str]:
    """Put these files on a disk, give the same runs again, and return what differs then."""
    with tempfile.TemporaryDirectory(prefix="fedgrid-power-") as name:
        root = Path(name, "runs")
        for path, data in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            if not path.endswith(".lock"):
                (root / path).write_bytes(data)
            elif data.endswith(b"}"):  # One that was cut holds its round for a minute, and nothing more.
                (root / path).write_bytes(_of_another_process(data))
        try:
            work(root)
        except FedgridError as error:
            return [f"refused: {error}"]
        found = results(root)
        return sorted(path for path in expected | found if expected.get(path) != found.get(path))


def _of_another_process(lock: bytes) -> bytes:
    """Return a lock of this process as that of one that has ended: nobody waits a minute for it."""
    return lock.replace(f'"{read_start_time(os.getpid())}"'.encode(), b'"0"')


def main() -> None:
    """Cut after every step, or after some of them, and print what differs."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--cuts", type=int, help="this many of the cuts, drawn with the seed; or all")
    given = options.parse_args()
    rng = random.Random(given.seed)
    records.SEGMENT_ROWS = SEGMENT_ROWS
    with tempfile.TemporaryDirectory(prefix="fedgrid-power-") as name:
        root = Path(name, "runs")
        root.mkdir()
        disk = Disk(root)
        with disk.recording():
            work(root)
        expected = results(root)
        shutil.rmtree(root)
    cuts = [(number, loses) for number in range(len(disk.moments)) for loses in (False, True)]
    chosen = cuts if given.cuts is None else sorted(rng.sample(cuts, given.cuts))
    began, wrong = time.monotonic(), 0
    for done, (number, loses) in enumerate(chosen):
        if done and done % 20 == 0:
            print(f"{done} of {len(chosen)} cuts, {wrong} wrong", flush=True)
        differs = restarted(cut(disk.moments, number, rng, loses_rename=loses), expected)
        if differs:
            wrong += 1
            lost = ", the last rename lost" if loses else ""
            print(f"cut after step {number}, {disk.moments[number].step}{lost}: {', '.join(differs)}")
    print(
        f"{len(chosen)} power cuts in {len(disk.moments)} steps of {len(runs())} runs: {wrong} end with "
        f"other files; {time.monotonic() - began:.0f} s"
    )
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
