"""Stop processes of a grid (SIGSTOP) past every expiry, let others take over, and wake them (SIGCONT).

python -m tests.chaos.stopped          # five minutes

1. A driver is stopped. A second one is refused for a minute, then takes over and finishes. The first one
   wakes and must end in one line, without a change to any file.
2. On Ray, the server of a run is stopped while it computes rounds that another run waits for, and a client
   actor too. All wake after 100 seconds, when another run may have computed the same rounds.

In the end, all runs must have the same bytes as undisturbed ones.
"""

import argparse
import os
import signal
import tempfile
import time
from pathlib import Path

from tests.helpers.command_line import fedgrid, new_storage, start_command, wait_for_round
from tests.helpers.processes import list_processes, select_kind
from tests.helpers.stored_runs import check, read_files

EXPIRED = 62.0
"""Seconds; a lease lasts for 60."""
STOPPED = 100.0
"""Seconds; the lock on a round lasts for 60."""
GRID = "clients: 4\nalgorithm: [fedavg, ocfl-kmeans]\ntraining: {rounds: 40}\n"


def stopped_driver(grid: Path, folder: Path) -> dict[str, bytes]:
    """Stop a driver, and return the files that its successor leaves."""
    storage = new_storage(folder / "driver")
    command = ("run", grid, "--in-process", "--json", "--storage", storage)
    with start_command(*command) as first:
        wait_for_round(first, 1)
        first.send_signal(signal.SIGSTOP)
        since = time.monotonic()
        refused = fedgrid(*command)
        check(refused.code == 2 and refused.err.count("\n") == 1, f"second driver: {refused.err.strip()}")
        time.sleep(since + EXPIRED - time.monotonic())
        taken = fedgrid(*command)
        check((taken.code, taken.err) == (0, ""), "after a minute the same command finishes the grid")
        found = read_files(storage)
        first.send_signal(signal.SIGCONT)
        _, err = first.communicate(timeout=120)
        said = err.strip().splitlines()[-1:]
        check(first.returncode == 1 and "taken over" in err, f"the first driver wakes, ends with 1: {said}")
        check(read_files(storage) == found, "and has changed no file")
    return found


def stopped_actors(grid: Path, folder: Path) -> dict[str, bytes]:
    """Stop a server and a client actor for a while; return the files of the grid."""
    storage = new_storage(folder / "actors")
    with start_command("run", grid, "--json", "--clients-per-actor", "2", "--storage", storage) as driver:
        wait_for_round(driver, 1)
        for kind in ("server", "client"):
            pids = select_kind(kind, list_processes(driver.pid))
            send(pids[:1], signal.SIGSTOP)
            check(bool(pids), f"{kind} stopped for {STOPPED:g} s")
            time.sleep(STOPPED)
            send(pids[:1], signal.SIGCONT)
        _, err = driver.communicate(timeout=600)
        check((driver.returncode, err) == (0, ""), f"the grid finishes {err.strip()}")
    return read_files(storage)


def send(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to processes, which may have ended."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def main() -> None:
    """Run the grid undisturbed, then with each kind of process stopped."""
    cases = {"driver": stopped_driver, "actors": stopped_actors}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=cases, default=list(cases))
    chosen = parser.parse_args().cases
    with tempfile.TemporaryDirectory(prefix="fedgrid-stopped-") as place:
        folder = Path(place)
        grid = folder / "stopped.yaml"
        grid.write_text(GRID)
        whole = new_storage(folder / "undisturbed")
        check(fedgrid("run", grid, "--in-process", "--storage", whole).code == 0, "undisturbed")
        expected = read_files(whole)
        for name in chosen:
            found = cases[name](grid, folder)
            differing = [path for path in expected | found if expected.get(path) != found.get(path)]
            check(not differing, f"stopped {name}: {len(differing)} of {len(expected)} files differ")


if __name__ == "__main__":
    main()
