"""What `fedgrid run` and `fedgrid ui` do, once their options are read."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console
from rich.markup import escape

from engine.datasets import load
from engine.errors import ConfigError, RunError
from engine.messages import ImageSet
from engine.resources import Request
from engine.run_config import RunConfig
from engine.run_folder import RunFolder, folder_of
from engine.session import deal
from engine.splits import server_subset
from grids.backend import Backend, InProcessBackend, RayBackend
from grids.launch import Outcome, all_done, forget, launch
from grids.presets import Grid
from grids.report import Bars, JsonLines, Lines
from grids.tables import failure_table, result_table
from grids.track import RunLog, artifact_root
from tracking import ui
from tracking.mlflow_store import TrackingError, shown, tracking_uri


def run_grid(
    grid: Grid,
    storage: Path,
    data_dir: Path,
    *,
    request: Request,
    in_process: bool,
    fresh: bool,
    as_json: bool,
    console: Console,
) -> bool:
    """Run a grid and show its results; return whether a run failed.

    Raises:
        ConfigError, DataError: for what cannot be, before anything is written.
    """
    if in_process and request != Request():
        raise ConfigError("--in-process has no actors: leave it out, or the options about clients per actor")
    check_data(grid.runs, data_dir)
    check_storage(grid.runs, storage)
    log = RunLog(grid.name, storage, _warn)
    reporter = _reporter(grid.runs, as_json, console)
    with ExitStack() as stack:
        with_ray = not in_process and (fresh or not all_done(grid.runs, storage))
        with _waiting(console, as_json, "Starting MLflow and Ray" if with_ray else "Starting MLflow"):
            backend: Backend = InProcessBackend(data_dir)
            if with_ray:
                backend = stack.enter_context(RayBackend(data_dir, request))
                for clients in sorted({run.clients for run in grid.runs}):
                    backend.place(clients)
            make_storage(storage)
            log.prepare()
            if fresh:
                forget(grid.runs, storage, log)
        stack.enter_context(reporter)
        outcomes = launch(grid.runs, storage, backend, log, reporter)
    if not as_json:
        _show(outcomes, storage, log.uri, console)
    return any(outcome.error for outcome in outcomes)


def check_data(runs: Sequence[RunConfig], data_dir: Path) -> None:
    """Download what is missing and deal every scenario out once, so that what cannot be fails now.

    Raises:
        DataError: images are missing, damaged, or cannot be downloaded.
        ConfigError: a split that the data set cannot carry.
    """
    labels: dict[str, Any] = {}
    servers: dict[str, ImageSet] = {}
    seen = set()
    for run in runs:
        if run.dataset not in labels:
            pool, servers[run.dataset] = load(run.dataset, data_dir)
            labels[run.dataset] = pool.labels
        scenario = (run.scenario, run.seed, run.split)
        if scenario not in seen:
            seen.add(scenario)
            deal(run, labels[run.dataset], data_dir)
            server_subset(servers[run.dataset], run.split.server_images, run.seed)


def check_storage(runs: Sequence[RunConfig], storage: Path) -> None:
    """Check that runs can be kept in `storage`, and that no other process is at one of them.

    Raises:
        ConfigError: otherwise.
    """
    nearest = next(path for path in (storage, *storage.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        what = "not a folder" if not nearest.is_dir() else "not yours to write to"
        raise ConfigError(f"--storage {storage}: {nearest} is {what}; name another folder")
    for run in runs:
        folder = RunFolder(folder_of(storage, run), run)
        if folder.path.exists():
            try:
                with folder.locked():
                    pass
            except RunError as error:
                raise ConfigError(str(error)) from error


def make_storage(storage: Path) -> None:
    """Create the folder of runs, if it is not there yet.

    Raises:
        ConfigError: if it cannot be.
    """
    try:
        storage.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--storage {storage}: {error.strerror}; name another folder") from error


@contextmanager
def _waiting(console: Console, as_json: bool, what: str) -> Iterator[None]:
    """Say what takes seconds: a spinner on a terminal, a line in a log."""
    if as_json:
        yield
    elif console.is_terminal:
        with console.status(f"{what} ..."):
            yield
    else:
        console.print(f"{what} ...")
        yield


def _reporter(runs: Sequence[RunConfig], as_json: bool, console: Console) -> Bars | Lines | JsonLines:
    if as_json:
        return JsonLines()
    return Bars(console, runs) if console.is_terminal else Lines(console)


def _warn(text: str) -> None:
    line = f"[yellow]warning:[/] {escape(text)}"
    Console(stderr=True).print(line, highlight=False, soft_wrap=True, emoji=False)


def _show(outcomes: Sequence[Outcome], storage: Path, uri: str, console: Console) -> None:
    def say(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False, highlight=False, emoji=False)

    finished = [outcome for outcome in outcomes if not outcome.error]
    say("")
    if finished:
        console.print(result_table(finished, console.width))
        say(
            "pers.: each cluster's model on its clients' own test images; gen.: on the\n"
            "server's; F1 over a test set's own classes; gap: |pers. acc. - gen. acc.|; all\n"
            "are means over clients; –: none.\n"
        )
    if len(finished) < len(outcomes):
        console.print(failure_table(outcomes))
        say("")
    say(f"Written to {storage} (a folder a run: config.json, *.parquet, figures/)")
    say(f"MLflow store: {shown(uri)}")
    say(f"See it:  fedgrid ui --storage {quote(str(storage))}")


def serve_ui(storage: Path, port: int, console: Console) -> int:
    """Serve the MLflow UI on loopback until interrupted; return the server's exit code.

    Raises:
        ConfigError: if there is no store, or the port is taken.
    """
    if "MLFLOW_TRACKING_URI" not in os.environ and not (storage / "mlflow.db").exists():
        raise ConfigError(f"no runs in {storage}: run something first, or name the folder with --storage")

    def announce() -> None:
        console.print(f"MLflow at [bold]{ui.address(port)}[/] (Ctrl-C ends it)", highlight=False)

    try:
        return ui.serve(tracking_uri(storage), artifact_root(storage), port, announce)
    except TrackingError as error:
        raise ConfigError(str(error)) from error
