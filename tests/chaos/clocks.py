"""Drive one storage from machines whose clocks are five minutes apart, and compare the bytes.

python -m tests.chaos.clocks          # two minutes; needs a C compiler

A library that is preloaded (`shifted_clock.c`) shifts a command's wall clock. A driver five minutes behind
lives, and one five minutes ahead is refused; the first is killed, and the second goes on. Then the other way
round. The runs must have the same bytes as undisturbed ones.
"""

import signal
import subprocess
import tempfile
from pathlib import Path

from tests.helpers.command_line import fedgrid, new_storage, started, stop, wait_for_round

CLOCKS = ("timings.parquet", "timings.sha256", "log.txt", "mlflow.json")
GRID = (
    "--clients",
    "4",
    "--algorithm",
    "ocfl-kmeans",
    "--set",
    "training.rounds=40",
    "--in-process",
    "--json",
)
MINUTES = 300


def contents(storage: Path) -> dict[str, bytes]:
    """Return file -> bytes of all runs, but for what a clock says."""
    folders = [path.parent for path in storage.glob("*/config.json")]
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(storage)): path.read_bytes() for path in paths if path.name not in CLOCKS}


def check(is_right: bool, what: str) -> None:
    """Say what was seen; end if it is wrong."""
    print(f"{'ok' if is_right else 'WRONG'}: {what}", flush=True)
    if not is_right:
        raise SystemExit(1)


def handed_on(storage: Path, library: Path, first: int, second: int) -> None:
    """Kill a driver with one clock; finish with another."""
    command = ("run", *GRID, "--storage", storage)
    clocks = [{"LD_PRELOAD": str(library), "SHIFT": str(seconds)} for seconds in (first, second)]
    with started(*command, **clocks[0]) as driver:
        wait_for_round(driver, 3)
        with started(*command, **clocks[1]) as refused:
            said = refused.communicate(timeout=120)[1].strip()
            check(refused.returncode == 2 and "in use" in said, f"{first:+} s drives, {second:+} s: {said}")
        check(stop(driver, signal.SIGKILL)[0] == -signal.SIGKILL, f"{first:+} s is killed")
    with started(*command, **clocks[1]) as driver:
        _, err = driver.communicate(timeout=300)
        check((driver.returncode, err) == (0, ""), f"{second:+} s goes on and finishes")


def main() -> None:
    """Hand a grid on between two clocks, both ways."""
    with tempfile.TemporaryDirectory(prefix="fedgrid-clocks-") as name:
        folder = Path(name)
        library = folder / "shifted_clock.so"
        source = Path(__file__).with_name("shifted_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        whole = new_storage(folder / "undisturbed")
        check(fedgrid("run", *GRID, "--storage", whole).code == 0, "undisturbed")
        expected = contents(whole)
        for first in (-MINUTES, MINUTES):
            storage = new_storage(folder / f"from{first}")
            handed_on(storage, library, first, -first)
            found = contents(storage)
            differing = [path for path in expected | found if expected.get(path) != found.get(path)]
            check(not differing, f"{len(differing)} of {len(expected)} files differ")


if __name__ == "__main__":
    main()
