"""Let actors hang that never return, and writes, and compare the bytes.

python -m tests.chaos.hangs          # five minutes; needs a C compiler

The code is a copy whose deadlines are seconds instead of hours (`runtime/storage/clock.py`). On Ray, a
client actor is stopped for ever; then the server of a run, as it writes the records of round 3; then that
write alone, as on a network disk that is away. A library that is preloaded (`hanging_write.c`) does the last
two, so that they come at the same moment on any machine. Each is replaced, the grid finishes, no process is
left, and all runs have the same bytes as undisturbed ones.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.helpers.changed_code import copy_with_changes
from tests.helpers.command_line import build_environment, new_storage, strict_json
from tests.helpers.processes import list_processes, select_kind, wait_until_ended
from tests.helpers.stored_runs import check, read_files

CASES = ("client", "server", "write")
LEAST = 20.0
"""Seconds that a client actor may take; a server may be silent four times as long."""
DEADLINES = {"FIRST": "60.0", "LEAST": str(LEAST), "TIMES_SLOWEST": "2.0"}
GRID = "clients: 4\nalgorithm: ocfl-kmeans\ntraining: {rounds: 5, local_epochs: 800}\n"
"""Its rounds take seconds, so that most of them are to come when the driver has shown round 2."""
ENTRY = "from fedgrid.grids.cli.main import main; main()"
ON_RAY = ("--clients-per-actor", "2")


def launched(
    grid: Path, storage: Path, *options: str, stopped: str = "", **settings: str
) -> tuple[list[str], float]:
    """Run the grid, and stop the first process of a kind for ever after round 2.

    Returns the causes of runs that were retried, and the longest silence after the first round in seconds.
    """
    command = [sys.executable, "-c", ENTRY, "run", str(grid), "--json", "--storage", str(storage), *options]
    driver = subprocess.Popen(
        command,
        # Ray's workers import from the driver's folder first: not from the checkout, but from the copy.
        cwd=grid.parent,
        env=build_environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None
    causes, seen, silences, last = [], set[int](), [0.0], time.monotonic()
    for line in driver.stdout:
        event = strict_json(line)
        silences.append(time.monotonic() - last if seen else 0.0)
        last = time.monotonic()
        if event["event"] == "retry":
            causes.append(str(event["cause"]))
        if event["event"] == "round":
            seen |= set(found := list_processes(driver.pid))
            if stopped:
                pids = select_kind(stopped, found)
                assert pids, f"no {stopped} among {sorted(found.values())}"
                os.kill(pids[0], signal.SIGSTOP)
                stopped = ""
    _, err = driver.communicate()
    check(driver.returncode == 0, f"exit code {driver.returncode} {err.strip()[-500:]}")
    wait_until_ended(seen)
    return causes, max(silences)


def expect_replacement(case: str, causes: list[str], silence: float) -> None:
    """Check that an actor hung and was replaced: a client's within its run, a server's by a retry."""
    said = f"{case} hangs: {silence:.0f} s without an event, {causes or 'no run is retried'}"
    if case == "client":
        check(not causes and silence > LEAST, said)
    else:
        check(len(causes) == 1 and causes[0].startswith("its server did not respond for "), said)


def main() -> None:
    """Run the grid undisturbed, then with each kind of hang."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    chosen = parser.parse_args().cases
    with tempfile.TemporaryDirectory(prefix="fedgrid-hangs-") as name:
        folder = Path(name)
        grid = folder / "hangs.yaml"
        grid.write_text(GRID)
        library, once = folder / "hanging_write.so", folder / "once"
        source = Path(__file__).with_name("hanging_write.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        code = {
            "PYTHONPATH": str(
                copy_with_changes(folder / "code", "engine/runtime/storage/clock.py", DEADLINES)
            )
        }
        write = {"LD_PRELOAD": str(library), "HANGING_NAME": "-000003-", "HANGING_ONCE": str(once)}
        whole = new_storage(folder / "undisturbed")
        launched(grid, whole, "--in-process", **code)
        expected = read_files(whole)
        for case in chosen:
            settings = {"client": {}, "server": {**write, "HANGING_STOPS": "1"}, "write": write}[case]
            stopped = case if case == "client" else ""
            storage = new_storage(folder / case)
            once.touch()
            causes, silence = launched(grid, storage, *ON_RAY, stopped=stopped, **code, **settings)
            expect_replacement(case, causes, silence)
            check(once.exists() == (case == "client"), f"{case} hangs: it has come to that")
            found = read_files(storage)
            differing = [path for path in expected | found if expected.get(path) != found.get(path)]
            check(not differing, f"{case} hangs: {len(differing)} of {len(expected)} files differ")


if __name__ == "__main__":
    main()
