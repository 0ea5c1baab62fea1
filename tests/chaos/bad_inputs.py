"""Give every bad input to a command of its own; say how long it takes and what it leaves.

python -m tests.chaos.bad_inputs

The commands are those of `tests/helpers/bad_inputs.py`. Each must end with one line and exit code 2, and
leave nothing behind. Measured are the seconds of the processor that it takes, which a busy
machine does not change, and those of `fedgrid --help`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

from tests.helpers.bad_inputs import BAD_INPUTS, BadInput

LIMIT = 60
"""Seconds after which a command hangs."""
ENTRY = [sys.executable, "-c", "from fedgrid.grids.cli.main import main; main()"]


def timed(arguments: tuple[str, ...], folder: Path) -> tuple[float, "subprocess.CompletedProcess[str]"]:
    """Run a command in `folder`; return the seconds of the processor that it took, too."""
    before = getrusage(RUSAGE_CHILDREN)
    settings = {**os.environ, "MLFLOW_TRACKING_URI": "", "FEDGRID_STORAGE": "runs"}
    done = subprocess.run(
        [*ENTRY, *arguments],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=LIMIT,
    )
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done


def check(bad: BadInput, folder: Path) -> tuple[float, str]:
    """Return the seconds of a command, and what is wrong with its end."""
    bad.write(folder)
    before = sorted(folder.rglob("*"))
    try:
        seconds, done = timed(bad.arguments, folder)
    except subprocess.TimeoutExpired:
        return LIMIT, "hangs"
    wrong = [
        text
        for text, is_wrong in (
            (f"exit code {done.returncode}", done.returncode != 2),
            (f"prints {done.stdout[:100]!r}", done.stdout != ""),
            (f"{len(done.stderr.splitlines())} lines", len(done.stderr.splitlines()) != 1),
            (f"does not say {bad.message!r}: {done.stderr[:200]!r}", bad.message not in done.stderr),
            ("leaves files", sorted(folder.rglob("*")) != before),
        )
        if is_wrong
    ]
    return seconds, ", ".join(wrong)


def main() -> None:
    """Run all, and print the slowest and what is wrong."""
    found = []
    with tempfile.TemporaryDirectory(prefix="fedgrid-bad-") as name:
        empty, _ = timed(("--help",), Path(name))
        for number, bad in enumerate(BAD_INPUTS):
            folder = Path(name, str(number))
            folder.mkdir()
            found.append((*check(bad, folder), bad.name))
    for seconds, wrong, which in sorted(found, reverse=True):
        if wrong or seconds >= 2:
            print(f"{seconds:5.1f} s  {which}  {wrong}")
    seconds = sorted(each for each, _, _ in found)
    print(
        f"{len(found)} bad inputs: {sum(bool(wrong) for _, wrong, _ in found)} wrong; seconds: median "
        f"{seconds[len(seconds) // 2]:.2f}, most {seconds[-1]:.2f}; `fedgrid --help` {empty:.2f}"
    )
    raise SystemExit(any(wrong for _, wrong, _ in found))


if __name__ == "__main__":
    main()
