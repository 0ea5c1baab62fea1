"""Drive one storage from machines whose clocks are five minutes apart, and compare the bytes.

python -m tests.chaos.clocks          # two minutes; needs a C compiler

A library that is preloaded (`shifted_clock.c`) shifts a command's wall clock. A driver five minutes behind
lives, and one five minutes ahead is refused; the first is killed, and the second goes on. Then the other way
round. Then a clock is set back by an hour while a run is under way. The runs must have the same bytes as
undisturbed ones, and in MLflow none ends before it has started.
"""

import signal
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

from tests.helpers.command_line import fedgrid, new_storage, start_command, stop_command, wait_for_round
from tests.helpers.stored_runs import check, read_files

GRID = (
    "--clients",
    "4",
    "--algorithm",
    "ocfl-kmeans",
    "training.rounds=40",
    "--in-process",
    "--json",
)
MINUTES, HOUR = 300, 3600
SET_BACK_AFTER = 15
"""Seconds after the start of the command: its imports take half of that."""
BACKWARDS = "SELECT count(*) FROM runs WHERE end_time IS NULL OR end_time < start_time"


def handed_on(storage: Path, library: Path, first: int, second: int) -> None:
    """Kill a driver with one clock; finish with another."""
    command = ("run", *GRID, "--storage", storage)
    clocks = [{"LD_PRELOAD": str(library), "SHIFT": str(seconds)} for seconds in (first, second)]
    with start_command(*command, **clocks[0]) as driver:
        wait_for_round(driver, 1)
        # So that it does not finish meanwhile; its lease lasts for a minute.
        driver.send_signal(signal.SIGSTOP)
        with start_command(*command, **clocks[1]) as refused:
            said = refused.communicate(timeout=120)[1].strip()
            check(refused.returncode == 2 and "in use" in said, f"{first:+} s drives, {second:+} s: {said}")
        check(stop_command(driver, signal.SIGKILL)[0] == -signal.SIGKILL, f"{first:+} s is killed")
    with start_command(*command, **clocks[1]) as driver:
        _, err = driver.communicate(timeout=300)
        check((driver.returncode, err) == (0, ""), f"{second:+} s goes on and finishes")


def set_back(storage: Path, library: Path) -> None:
    """Set the clock of a driver back by an hour while it works."""
    clock = {"LD_PRELOAD": str(library), "SHIFT": str(-HOUR), "AFTER": str(SET_BACK_AFTER)}
    with start_command("run", *GRID, "--storage", storage, **clock) as driver:
        _, err = driver.communicate(timeout=300)
        check((driver.returncode, err) == (0, ""), "the clock of a driver is set back by an hour")


def compare(storage: Path, expected: dict[str, bytes]) -> None:
    """Compare the files with the undisturbed ones, and look at the times in MLflow."""
    found = read_files(storage)
    differing = [path for path in expected | found if expected.get(path) != found.get(path)]
    check(not differing, f"{len(differing)} of {len(expected)} files differ")
    with closing(sqlite3.connect(storage / "mlflow.db")) as database:
        count = database.execute(BACKWARDS).fetchone()[0]
    check(not count, f"{count} runs in MLflow end before they start")


def main() -> None:
    """Hand a grid on between two clocks, both ways; set one back."""
    with tempfile.TemporaryDirectory(prefix="fedgrid-clocks-") as name:
        folder = Path(name)
        library = folder / "shifted_clock.so"
        source = Path(__file__).with_name("shifted_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        whole = new_storage(folder / "undisturbed")
        check(fedgrid("run", *GRID, "--storage", whole).code == 0, "undisturbed")
        expected = read_files(whole)
        for first in (-MINUTES, MINUTES):
            storage = new_storage(folder / f"from{first}")
            handed_on(storage, library, first, -first)
            compare(storage, expected)
        storage = new_storage(folder / "set-back")
        set_back(storage, library)
        compare(storage, expected)


if __name__ == "__main__":
    main()
