"""Damage every file of a finished grid, one at a time, and give every command that reads it.

python -m tests.chaos.damage

A file is cut in half, emptied, or has one bit flipped, at several places. `status`, `store`, the report's
numbers and `run` must then say it in one line, or not be concerned; no number that they show may differ from
those of the whole grid; and once `run` has done what it can, the records are the same bytes again, or it has
refused in one line.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from fedgrid.engine.errors import FedgridError
from fedgrid.grids.results.study import load
from tests.helpers.command_line import Result, fedgrid, new_storage

GRID = """
clients: 3
algorithm: [bnc, ocfl-kmeans]
split: {draws: 40}
training: {rounds: 3, local_epochs: 1}
"""
NUMBERS = ("rounds.parquet", "clients.parquet", "scores.json")
NOT_OURS = ("mlflow.db", "mlartifacts", "figures", "log.txt")
"""MLflow's files, and those that no command reads."""
REWRITTEN = ("preset.yaml", "progress.json", "summary.csv", "mlflow.json")
"""Files that every launch writes anew."""

Damage = Callable[[bytes], bytes]


def flip(share: float, data: bytes) -> bytes:
    """Flip a bit at so much of the file."""
    flipped = bytearray(data)
    flipped[int(share * (len(data) - 1))] ^= 1
    return bytes(flipped)


DAMAGES: dict[str, Damage] = {
    "empty": lambda data: b"",
    "cut in half": lambda data: data[: len(data) // 2],
    **{f"bit flipped at {share:.0%}": partial(flip, share) for share in (0.0, 0.3, 0.6, 0.97)},
}


def make(folder: Path) -> Path:
    """Run the whole grid; return its storage."""
    (folder / "small.yaml").write_text(GRID)
    storage = new_storage(folder / "whole")
    done = fedgrid("run", folder / "small.yaml", "--storage", storage, "--in-process")
    assert done.code == 0, done.err
    return storage


def victims(storage: Path) -> list[Path]:
    """Return the files of one run and of the grid, relative to the storage."""
    first = sorted(storage.glob("digits-*"))[0]
    grid = storage / "grids" / "small"
    paths = (path for folder in (first, grid) for path in sorted(folder.rglob("*")) if path.is_file())
    names = [path.relative_to(storage) for path in paths]
    return [name for name in names if not set(name.parts) & set(NOT_OURS)]


def numbers(storage: Path) -> dict[str, bytes]:
    """Return the bytes of all records and scores."""
    found = (path for name in NUMBERS for path in storage.glob(f"digits-*/{name}"))
    return {str(path.relative_to(storage)): path.read_bytes() for path in found}


def reported(storage: Path) -> dict[str, str] | str:
    """Return the scores of each run that a report has; or the line with which it is refused."""
    try:
        study = load("small", str(storage))
    except FedgridError as error:
        return str(error)
    return {result.run.run_id: repr(result.clustering) for result in study.finished}


def faults(name: str, result: Result) -> Iterator[str]:
    """Yield what is wrong with how a command ended."""
    lines = result.err.splitlines()
    if "Traceback" in result.err or any(not line.startswith(("fedgrid:", "warning:")) for line in lines):
        yield f"{name}: {result.err[-300:]!r}"
    if result.code not in (0, 1, 2) or (result.code and len(lines) != 1):
        yield f"{name}: exit code {result.code} and {len(lines)} lines"


def check(whole: Path, victim: Path, damage: Damage, folder: Path) -> tuple[str, list[str]]:
    """Damage a file of a copy; return what `run` did about it, and what is wrong."""
    # MLflow keeps a database open by its name: each copy has one of its own.
    storage = Path(tempfile.mkdtemp(dir=folder)) / "runs"
    shutil.copytree(whole, storage)
    before = (storage / victim).read_bytes()
    (storage / victim).write_bytes(damage(before))
    wrong = []
    for command in ("status", "store"):
        wrong += faults(command, fedgrid(command, "small", "--storage", storage))
    expected, shown = reported(whole), reported(storage)
    if isinstance(shown, str):
        wrong += ["report: several lines"] if "\n" in shown else []
    elif not shown.items() <= dict(expected).items():
        wrong.append("report: other numbers")
    ran = fedgrid("run", folder / "small.yaml", "--storage", storage, "--in-process")
    wrong += faults("run", ran)
    if ran.code == 0 and numbers(storage) != numbers(whole):
        wrong.append("run: other bytes")
    kept = [path.read_bytes() for path in storage.rglob(victim.name)]
    if damage(before) not in kept and victim.name not in REWRITTEN:
        wrong.append("run: the damaged file is gone")
    shutil.rmtree(storage.parent)
    return ("refused" if ran.code else "set aside" if "set aside" in ran.err else "not concerned"), wrong


def main() -> int:
    """Damage every file in every way; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--file", help="Only files of this name.")
    given = parser.parse_args()
    ends: Counter[str] = Counter()
    num_wrong = 0
    with tempfile.TemporaryDirectory() as place:
        whole = make(Path(place))
        for victim in victims(whole):
            for how, damage in DAMAGES.items() if given.file in (None, victim.name) else ():
                end, wrong = check(whole, victim, damage, Path(place))
                ends[end] += 1
                num_wrong += bool(wrong)
                print("; WRONG ".join([f"{victim.name}, {how}: {end}", *wrong]), flush=True)
    said = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    print(f"{ends.total()} damaged files: {said}; {num_wrong} wrong")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
