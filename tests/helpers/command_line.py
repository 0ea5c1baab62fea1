"""Call the command line as a user would, in this process or in one of its own."""

import fcntl
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import typer

from fedgrid.grids.trackers.mlflow.own_store import build_empty_store
from tests.helpers.processes import list_processes, select_kind, wait_until_ended

if TYPE_CHECKING:
    from fedgrid.grids.planning.estimate import Speed
    from fedgrid.grids.planning.workload import Workload

SETTINGS = ("MLFLOW_TRACKING_URI", "FEDGRID_DATA", "FEDGRID_STORAGE", "COLUMNS", "FORCE_COLOR")
"""Variables that the environment of the tests must not have."""
END_SECONDS = 60
TEST_RUN_FOLDER = "TEST_RUN_FOLDER"
"""Names the folder that all processes of a test run share."""
_CACHED_COMMAND = cache(typer.main.get_command)
"""Typer makes the commands of their functions for each call, which takes 15 ms."""


@dataclass(frozen=True)
class Result:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events that `--json` prints, one a line."""
        return [strict_json(line) for line in self.out.splitlines()]


def strict_json(text: str) -> Any:
    """Read JSON; NaN and Infinity, which Python writes and no other language reads, are errors."""

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is no JSON")

    return json.loads(text, parse_constant=refuse)


def new_storage(folder: Path) -> Path:
    """Make `folder` with an empty MLflow store: making one takes seconds, a copy nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mlflow.db").write_bytes(_empty_store())
    return folder


@cache
def _empty_store() -> bytes:
    """Build an empty MLflow store: once for all processes of a test run, once a process elsewhere."""
    shared = os.environ.get(TEST_RUN_FOLDER)
    if shared is None:
        with TemporaryDirectory() as folder:
            return _load_store(Path(folder))
    with (Path(shared) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _load_store(Path(shared))


def _load_store(folder: Path) -> bytes:
    store = folder / "mlflow.db"
    if not store.exists():
        build_empty_store(store)
    return store.read_bytes()


def build_environment(**changes: str) -> dict[str, str]:
    """Build this environment without the user's settings, with a Ray of its own and with `changes`."""
    own = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    return {**own, "RAY_ADDRESS": "local", **changes}


def assume_speed(load: "Workload", device: str) -> "Speed":
    """Assume the same speed of each workload: stands for `time_training`."""
    from fedgrid.grids.planning.estimate import Speed

    return Speed(0.1, 1e-4)


def fedgrid(*arguments: object, **settings: str) -> Result:
    """Run a command in this process: it saves the seconds that imports take.

    A plan does not measure how fast this machine trains, which takes seconds.
    """
    from fedgrid.grids.cli import main
    from fedgrid.grids.planning import estimate

    out, err = io.StringIO(), io.StringIO()
    command = ["fedgrid", *map(str, arguments)]
    with (
        patch.object(sys, "argv", command),
        patch.object(typer.main, "get_command", _CACHED_COMMAND),
        patch.dict(os.environ, build_environment(**settings), clear=True),
        patch.object(estimate, "time_training", assume_speed),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main.run_command()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Result(code, out.getvalue(), err.getvalue())


@contextmanager
def start_command(*arguments: object, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a command in a process of its own, which is gone at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from fedgrid.grids.cli.main import main; main()", *map(str, arguments)],
        cwd=Path(__file__).parents[2],
        env=build_environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for_round(process: "subprocess.Popen[str]", number: int) -> None:
    """Wait until a command with `--json` has printed that round `number` is done."""
    assert process.stdout is not None
    for line in process.stdout:
        event = strict_json(line)
        if event["event"] == "round" and event["round"] >= number:
            return
    assert process.stderr is not None
    raise AssertionError(f"the command ended before round {number}: {process.stderr.read()}")


def stop_command(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str]:
    """Send a signal to the process alone; read its exit code and the rest of stderr.

    A killed driver's actors end a little later: until then its servers may still write.
    """
    started_by = list_processes(process.pid) if number == signal.SIGKILL else {}
    actors = select_kind("server", started_by) + select_kind("client", started_by)
    process.send_signal(number)
    _, err = process.communicate(timeout=END_SECONDS)
    wait_until_ended(actors)
    return process.returncode, err
