"""Damage every file of a storage, one at a time, and give every command that reads it.

python -m tests.chaos.damage
python -m tests.chaos.damage --file mlflow.json --file storage.json
python -m tests.chaos.damage --interrupted

A file of a finished run, of a failed one, of their grids or of the storage itself is cut in half, emptied,
or has one bit flipped, at several places. With `--interrupted` it is a file of a run that was stopped, whose
records are in segments of two rounds. `status`, `cache`, `sync`, the numbers of `report` and `compare`,
`run` and `retry` must then say it in one line, or not be concerned; no number that they show may differ from
those of the whole grid, and MLflow may have no round twice; and once `run` has done what it can, the records
are the same bytes again, or it has refused in one line. Pauses take no time. `lease.json` and what is in
`drivers/` are those of a killed driver.
"""

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.leases.lease import Lease
from fedgrid.engine.runtime.run import records
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.cli.commands.app import INTERRUPTED
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.study import load
from fedgrid.tracking.tables.comparison import build_comparison_tables
from tests.helpers.command_line import Result, fedgrid, new_storage
from tests.helpers.time import skip_pauses
from tests.kept.make import interrupted

SMALL = """
clients: 3
algorithm: [fedavg, ocfl-kmeans]
split: {draws: 40}
training: {rounds: 3, local_epochs: 1}
"""
GRIDS = {
    "small": SMALL,
    "other": f"{SMALL.replace('rounds: 3', 'rounds: 2')}filter: {{algorithm: fedavg}}\n",
    "failing": f"{SMALL}filter: {{algorithm: fedavg}}\n".replace(
        "rounds: 3", "learning_rate: 1.0e+30, rounds: 3"
    ),
}
STOPPED = f"{SMALL.replace('rounds: 3', 'rounds: 6')}filter: {{algorithm: fedavg}}\n"
"""The grid of the interrupted run. It has a folder of its own: its storage is damaged, too."""
SEGMENT_ROWS = 6
"""Of three clients a round: the interrupted run has files with rounds 1 and 2, 3 and 4, and 5."""
STOP_AFTER = 5
NUMBERS = ("rounds.parquet", "clients.parquet", "scores.json")
NOT_OURS = ("mlflow.db", "mlartifacts", "log.txt", "cache")
"""MLflow's files, those that no command reads, and the round cache, which has tests of its own."""
KILLED = Path("drivers/0123456789abcdef.json")
REWRITTEN = (
    "preset.yaml",
    "progress.json",
    "summary.csv",
    "mlflow.json",
    "failed.json",
    KILLED.name,
)
"""Files that launches write anew, or delete."""
TWICE = (
    "SELECT count(*) FROM (SELECT 1 FROM metrics WHERE key = 'temperature' OR key = 'ari' "
    "GROUP BY run_uuid, key, step HAVING count(*) > 1)"
)

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
    """Run two grids, and one whose run fails; leave a killed driver's lease. Return their storage."""
    storage = new_storage(folder / "whole")
    for name, text in GRIDS.items():
        (folder / f"{name}.yaml").write_text(text)
        done = fedgrid("run", folder / f"{name}.yaml", "--storage", storage, "--in-process", "--retries", 0)
        assert done.code == (name == "failing"), done.err
    ended = subprocess.Popen(["true"])
    ended.wait()
    with Lease(Storage.from_text(storage), "small"):
        [held] = (storage / "drivers").iterdir()
        lease = json.loads(held.read_text())
    (storage / KILLED).write_text(json.dumps({**lease, "pid": ended.pid}) + "\n")
    return storage


def interrupt(folder: Path) -> tuple[Path, Path]:
    """Stop a run after its fifth round; return its storage, and that of the same run at its end."""
    (folder / "small.yaml").write_text(STOPPED)
    whole, stopped = new_storage(folder / "finished"), new_storage(folder / "stopped")
    launch = ("run", folder / "small.yaml", "--in-process", "--storage")
    assert fedgrid(*launch, whole).code == 0

    with interrupted(next(whole.glob("digits-*")).name.rpartition("-")[0], STOP_AFTER):
        ended = fedgrid(*launch, stopped)
        assert ended.code == INTERRUPTED, ended
    return stopped, whole


def of_the_interrupted(storage: Path) -> list[Path]:
    """Return its segments, tables and states, and what else its folder has."""
    [run] = storage.glob("digits-*")
    names = (path.relative_to(storage) for path in sorted(run.rglob("*")) if path.is_file())
    return [name for name in names if not set(name.parts) & set(NOT_OURS)]


def check_interrupted(
    stopped: Path, whole: Path, victim: Path, damage: Damage, folder: Path
) -> tuple[str, list[str]]:
    """Damage a file of a copy of an interrupted run; return what `run` did, and what is wrong."""
    storage = Path(tempfile.mkdtemp(dir=folder)) / "runs"
    shutil.copytree(stopped, storage)
    before = (storage / victim).read_bytes()
    (storage / victim).write_bytes(damage(before))
    wrong = []
    for command in (("status", "small"), ("cache", "small"), ("show", victim.parts[0]), ("sync", "small")):
        wrong += faults(command[0], fedgrid(*command, "--storage", storage), lines=3)
    found = reported(storage)
    if not isinstance(found, str) and found:
        wrong.append("report: numbers of a run that is not finished")
    ran = fedgrid("run", folder / "small.yaml", "--storage", storage, "--in-process")
    # A run that fails is listed with its cause at the end of the output.
    is_listed = ran.code == 1 and victim.name in "".join(ran.out.split())
    wrong += [] if is_listed else faults("run", ran)
    if ran.code == 0 and numbers(storage) != numbers(whole):
        wrong.append("run: other bytes")
    if again := twice(storage):
        wrong.append(f"MLflow has {again} points twice")
    is_aside = any(path.read_bytes() == damage(before) for path in storage.glob(f"*/damaged-*/{victim.name}"))
    if not ran.code and is_aside != (_end(ran) == "set aside"):
        wrong.append("run: the damaged file is gone, or not said to be set aside")
    shutil.rmtree(storage.parent)
    return _end(ran), wrong


def _end(ran: Result) -> str:
    is_aside = "set aside" in ran.err or "computed again" in ran.err
    return "refused" if ran.code else "set aside" if is_aside else "not concerned"


def victims(storage: Path) -> list[Path]:
    """Return the files of one finished run, of the failed one, of two grids and of the storage."""
    [failed] = storage.glob("*/failed.json")
    finished = build_folder_path(storage, GridFolder(Storage.from_text(storage), "small").read_runs()[0])
    grids = (storage / "grids" / name for name in ("small", "failing"))
    paths = [path for folder in (finished, failed.parent, *grids) for path in sorted(folder.rglob("*"))]
    paths += [storage / "storage.json", storage / KILLED]
    # The summary of a grid without a finished run is empty.
    names = [path.relative_to(storage) for path in paths if path.is_file() and path.stat().st_size]
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
    return {result.run_id: repr(dict(result.scores)) for result in study.finished}


def compared(storage: Path) -> list[str] | str:
    """Return the tables of a comparison, none where a run lacks; or the line with which it is refused."""
    try:
        studies = load("small", str(storage)), load("other", str(storage))
    except FedgridError as error:
        return str(error)
    if any(study.unfinished for study in studies):
        return []
    return [repr(table) for table in build_comparison_tables(*studies)]


def twice(storage: Path) -> int:
    """Return how many points of metrics MLflow has more than once."""
    with closing(sqlite3.connect(storage / "mlflow.db")) as database:
        return int(database.execute(TWICE).fetchone()[0])


def faults(name: str, result: Result, lines: int = 1, least: int = 1) -> Iterator[str]:
    """Yield what is wrong with how a command ended that says so many lines on standard error if it fails."""
    said = result.err.splitlines()
    if "Traceback" in result.err or any(not line.startswith(("fedgrid:", "warning:")) for line in said):
        yield f"{name}: {result.err[-300:]!r}"
    if result.code not in (0, 1, 2) or (result.code and not least <= len(said) <= lines):
        yield f"{name}: exit code {result.code} and {len(said)} lines"


def shown(whole: Path, storage: Path) -> Iterator[str]:
    """Yield what is wrong with the numbers that `report` and `compare` show."""
    expected, found = reported(whole), reported(storage)
    if isinstance(found, str):
        yield from ["report: several lines"] if "\n" in found else []
    elif not found.items() <= dict(expected).items():
        yield "report: other numbers"
    tables = compared(storage)
    if isinstance(tables, str):
        yield from ["compare: several lines"] if "\n" in tables else []
    elif tables and tables != compared(whole):
        yield "compare: other numbers"


def check(whole: Path, victim: Path, damage: Damage, folder: Path) -> tuple[str, list[str]]:
    """Damage a file of a copy; return what `run` did about it, and what is wrong."""
    # MLflow keeps a database open by its name: each copy has one of its own.
    storage = Path(tempfile.mkdtemp(dir=folder)) / "runs"
    shutil.copytree(whole, storage)
    before = (storage / victim).read_bytes()
    (storage / victim).write_bytes(damage(before))
    wrong = []
    for command in ("status", "cache"):
        wrong += faults(command, fedgrid(command, "small", "--storage", storage))
    wrong += shown(whole, storage)
    # A warning that the lease may be in use, and one of the damaged file, may come before the refusal.
    wrong += faults("sync", fedgrid("sync", "small", "--storage", storage), lines=3)
    ran = fedgrid("run", folder / "small.yaml", "--storage", storage, "--in-process")
    wrong += faults("run", ran)
    retried = fedgrid("run", "failing", "--failed", "--storage", storage, "--in-process", "--retries", 0)
    # A run that fails again is in a table on standard output.
    wrong += faults("run --failed", retried, lines=3, least=0)
    if ran.code == 0 and numbers(storage) != numbers(whole):
        wrong.append("run: other bytes")
    if again := twice(storage):
        wrong.append(f"MLflow has {again} points twice")
    kept = [path.read_bytes() for path in storage.rglob(victim.name)]
    if damage(before) not in kept and victim.name not in REWRITTEN:
        wrong.append("run: the damaged file is gone")
    shutil.rmtree(storage.parent)
    return _end(ran), wrong


def main() -> int:
    """Damage every file in every way; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--file", action="append", help="Only files of this name; may be repeated.")
    parser.add_argument("--interrupted", action="store_true", help="The files of a run that was stopped.")
    given = parser.parse_args()
    ends: Counter[str] = Counter()
    num_wrong = 0
    with tempfile.TemporaryDirectory() as place, skip_pauses():
        folder = Path(place)
        if given.interrupted:
            records.SEGMENT_ROWS = SEGMENT_ROWS
            stopped, whole = interrupt(folder)
            names, checked = of_the_interrupted(stopped), partial(check_interrupted, stopped, whole)
        else:
            whole = make(folder)
            names, checked = victims(whole), partial(check, whole)
        for victim in names:
            for how, damage in DAMAGES.items() if victim.name in (given.file or [victim.name]) else ():
                end, wrong = checked(victim, damage, folder)
                ends[end] += 1
                num_wrong += bool(wrong)
                print("; WRONG ".join([f"{victim.name}, {how}: {end}", *wrong]), flush=True)
    said = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    print(f"{ends.total()} damaged files: {said}; {num_wrong} wrong")
    return 1 if num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
