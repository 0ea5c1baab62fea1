"""A storage with files of every kind, commands on it, and what they did to what lies outside of it."""

import os
import re
import signal
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

from fedgrid.tracking.report import draw
from fedgrid.tracking.report.page import Drawing, Plate
from tests.helpers.command_line import Result, fedgrid, new_storage
from tests.helpers.plugin_files import ALGORITHM

SECRET = "SECRET-OF-MINE"
SECONDS = 120
"""For a command."""
MOST_LINES = 12
"""Of standard error."""
GRID = """
algorithm: {algorithms}
seeds: {seeds}
clients: 3
training: {{rounds: 2, local_epochs: 1}}
split: {{draws: 40, server_images: 50}}
"""
FAILING = ALGORITHM.replace('"own"', '"failing"').replace(
    "'''Plain averaging.'''", "def step(self, *given):\n        raise ValueError('on purpose')"
)
SEARCH = ("search", "sattler", "--dataset", "digits", "--clients", 3, "--trials", 2, "--name", "tried")
SHORT = "training.rounds=3"
EXPLAIN = ("analyse", "mine", "explain", "images=2", "--where", "algorithm=fedavg")
ATTACK = ("analyse", "mine", "attack", "kind=membership", "--where", "algorithm=fedavg")


def make_small(folder: Path) -> Path:
    """Return a storage of two grids with finished runs."""
    root = new_storage(folder / "runs")
    grid = _grid(folder, "mine", "[fedavg, ocfl-hdbscan]", "[0]")
    _give("run", grid, "--in-process", "--storage", root)
    _give("run", grid, "--in-process", "--name", "other", "--where", "algorithm=fedavg", "--storage", root)
    return root


def make_whole(folder: Path) -> Path:
    """Return a storage with a plugin, superseded and failed runs, an encoder, analyses, a search, a page."""
    root = new_storage(folder / "runs")
    (folder / "own.py").write_text(ALGORITHM)
    (folder / "failing.py").write_text(FAILING)
    at = ("--in-process", "--storage", root)
    failing = _grid(folder, "other", "[fedavg, failing]", "[0]")
    _give("run", failing, "--plugin", folder / "failing.py", *at, code=1)
    _give("run", _grid(folder, "mine", "[fedavg, ocfl-kmeans]", "[0, 1]"), *at)
    mine = _grid(folder, "mine", "[fedavg, own, embeddings]", "[0]")
    _give("run", mine, "--plugin", folder / "own.py", "--yes", *at)
    _give(*EXPLAIN, *at)
    _give(*ATTACK, *at)
    _give(*SEARCH, *SHORT, *at)
    _give("report", "mine", "--storage", root)
    return root


def looking(root: Path) -> list[tuple[object, ...]]:
    """Return the commands that look at a storage, whole or small."""
    run_id = next(path.name for path in sorted(root.glob("digits-*fedavg*"))).rpartition("-")[2]
    grid = root.parent / "mine.yaml"
    return [
        ("status",),
        ("status", "mine"),
        ("status", "mine", "--json"),
        ("show", "mine"),
        ("show", "mine", "--superseded"),
        ("show", run_id),
        ("cache", "mine"),
        ("report", "mine"),
        ("report", "mine", "--against", "other"),
        ("table", "mine"),
        ("cite", "mine"),
        ("show", "mine", "--columns", "all", "--json"),
        ("show", run_id, "--json"),
        ("analyse", "mine", "epsilons", "--dry-run"),
        (*EXPLAIN, "--dry-run"),
        (*ATTACK, "--dry-run"),
        (
            "run",
            grid,
            "--dry-run",
            "--in-process",
            "--name",
            "new",
            "--tuned",
            "tried",
            "--algorithm",
            "sattler",
        ),
        ("stop", "mine"),
        ("sync", "mine"),
        ("doctor",),
    ]


def working(root: Path) -> list[tuple[object, ...]]:
    """Return the commands that work on a whole storage; those that delete come last."""
    own = ("--plugin", root.parent / "own.py", "--in-process")
    grid = root.parent / "mine.yaml"
    return [
        (*EXPLAIN, "--steps", 5, "--in-process"),
        (*ATTACK, "--in-process"),
        ("status", "tried"),
        ("sync", "tried"),
        (*SEARCH, *SHORT, "--in-process"),
        ("run", grid, *own),
        ("cache", "mine", "--drop"),
        ("run", grid, "--fresh", *own),
        ("delete", "mine", "--superseded", "--yes"),
        ("delete", "mine", "--yes"),
        ("delete", "tried", "--yes"),
        ("delete", "other", "--yes"),
    ]


@contextmanager
def undrawn() -> Iterator[None]:
    """Write empty figures of a report in the block: to draw them takes longer than all else."""

    def empty(plate: Plate, folder: Path, drawing: Drawing) -> None:
        for suffix in drawing.formats:
            (folder / f"{plate.name}.{suffix}").write_text('<svg viewBox="0 0 9 9"/>')

    with patch.object(draw, "_draw", empty), patch.object(draw, "_cores", lambda: 1):
        yield


def look(
    root: Path, outside: Path, asked: Sequence[tuple[object, ...]], say: Callable[[str], None]
) -> list[str]:
    """Give each command; return what was wrong with how it ended, or with what it did outside."""
    faults = []
    for command in asked:
        before = state_of(outside)
        paths = _unread(outside)
        try:
            with _limited(SECONDS):
                result = fedgrid(*command, "--storage", root)
            fault, said = fault_of(result), f"{result.code} {result.err.strip()}"
        except Exception as error:
            fault = said = f"{type(error).__name__}: {error}"
        read = [path for path in paths if path.exists() and path.stat().st_atime_ns != 0]
        if state_of(outside) != before:
            fault = "it changed what lies outside"
        elif read:
            fault = f"it read {read[0].relative_to(outside)} outside"
        words = " ".join(str(word) for word in command if not isinstance(word, Path))
        say(f"  {words}: {said[:300]}")
        if fault:
            faults.append(f"{words}: {fault[:300]}; it said {said[:200]!r}")
    return faults


def fault_of(result: Result) -> str | None:
    """Return what is wrong with how a command ended; None: nothing."""
    said = result.out + result.err
    if result.code not in (0, 1, 2):
        return f"exit code {result.code}"
    if "Traceback" in said:
        return "a traceback"
    if SECRET in said:
        return "it shows what lies outside"
    if re.search("[\x00-\x08\x0b-\x1f\x7f]", said):
        return "it shows control characters"
    if result.code and not said.strip():
        return "it fails without a word"
    if result.err.count("\n") > MOST_LINES:
        return f"{result.err.count(chr(10))} lines of errors"
    return None


def state_of(folder: Path) -> dict[str, str]:
    """Return what lies in a folder: each path's kind, and its content or target."""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        if stat.S_ISLNK(about.st_mode):
            found[str(path)] = f"link {os.readlink(path)}"
        elif stat.S_ISREG(about.st_mode):
            found[str(path)] = f"{stat.S_IMODE(about.st_mode):o} {sha256(path.read_bytes()).hexdigest()}"
        else:
            found[str(path)] = f"{about.st_mode:o}"
    return found


def _unread(folder: Path) -> list[Path]:
    """Return what lies in a folder, each with a time of access that the next read of it changes."""
    paths = [path for path in folder.rglob("*") if not path.is_symlink()]
    for path in paths:
        os.utime(path, ns=(0, path.stat().st_mtime_ns))
    return paths


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block after that long."""

    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"it did not end within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _grid(folder: Path, name: str, algorithms: str, seeds: str) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(GRID.format(algorithms=algorithms, seeds=seeds))
    return path


def _give(*command: object, code: int = 0) -> None:
    result = fedgrid(*command)
    assert result.code == code, (command, result.err)
