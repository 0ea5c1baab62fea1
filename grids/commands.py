"""What the commands do, once their options are read."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Console
from rich.markup import escape

from algorithms.registry import ALGORITHMS
from engine.blueprint import of as blueprint_of
from engine.datasets import DATASETS, find, is_here, load
from engine.errors import ConfigError, RunError
from engine.messages import ImageSet
from engine.models import MODELS
from engine.resources import Request
from engine.run_config import RunConfig
from engine.run_folder import RunFolder, folder_of
from engine.splits import server_subset, split_pool
from grids.backend import Backend, InProcessBackend, RayBackend
from grids.launch import Outcome, all_done, forget, launch
from grids.presets import Grid
from grids.report import Bars, JsonLines, Lines
from grids.tables import choice_table, class_count_table, failure_table, result_table
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


def list_datasets(data_dir: Path, as_json: bool, console: Console) -> None:
    """Show the data sets, where they come from and which are here."""
    rows = []
    for dataset in DATASETS.values():
        rows.append(
            {
                "name": dataset.name,
                "title": dataset.title,
                "images": "x".join(map(str, dataset.shape)),
                "classes": dataset.num_classes,
                "pool": dataset.pool_size,
                "here": is_here(dataset.name, data_dir),
                "download_mb": dataset.download_mb,
                "source": dataset.source,
            }
        )
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    table = choice_table(
        ("name", "images", "classes", "pool", "here", "source"),
        [
            (
                str(row["name"]),
                str(row["images"]),
                str(row["classes"]),
                f"{row['pool']:,}",
                "yes" if row["here"] else f"no ({row['download_mb']} MB)",
                str(row["source"]),
            )
            for row in rows
        ],
    )
    console.print(table)
    console.print(
        "\nYour own images: folder:PATH (train/<class>/*, test/<class>/*) or npz:PATH (MedMNIST's keys)."
    )
    console.print(f"Data folder: {escape(str(data_dir))}", soft_wrap=True)


def show_scenario(
    config: RunConfig, data_dir: Path, csv: Path | None, as_json: bool, console: Console
) -> None:
    """Show, and write where asked, the class counts per client of a scenario."""
    pool, server = load(config.dataset, data_dir)
    splits = deal(config, pool.labels, data_dir)
    blueprint = blueprint_of(splits, pool.labels, server.labels, find(config.dataset, data_dir).num_classes)
    if csv is not None:
        blueprint.write(csv)
    if as_json:
        clients = [
            {
                "client": part.client,
                "group": part.cluster,
                "train": blueprint.train_KL[part.client].tolist(),
                "test": blueprint.test_KL[part.client].tolist(),
            }
            for part in splits
        ]
        print(json.dumps({"scenario": config.scenario, "seed": config.seed, "clients": clients}, indent=2))
        return
    console.print(f"[bold]{escape(config.scenario)}[/], seed {config.seed}: images per class")
    console.print(class_count_table(blueprint, [part.cluster for part in splits]))
    if csv is None:
        console.print("Write this as the authors' blueprint csv with --csv FILE.")
    else:
        console.print(f"Written to {escape(str(csv))}", soft_wrap=True)


def list_algorithms(as_json: bool, console: Console) -> None:
    """Show the algorithms, one line each, with source."""
    if as_json:
        entries = [
            {
                "name": entry.name,
                "title": entry.title,
                "summary": entry.summary,
                "source": entry.source,
                "settings": entry.settings.model_dump(mode="json"),
            }
            for entry in ALGORITHMS.values()
        ]
        print(json.dumps(entries, indent=2))
        return
    rows = [(entry.name, entry.summary, entry.source) for entry in ALGORITHMS.values()]
    console.print(choice_table(("name", "what it does", "source"), rows))
    console.print(
        "\nSettings and their defaults: fedgrid algorithms --json; set one with --set algorithm.KEY=VALUE"
    )


def list_models(as_json: bool, console: Console) -> None:
    """Show the models, one line each, with source."""
    rows = [(entry.name, entry.description, entry.source) for entry in MODELS.values()]
    if as_json:
        keys = ("name", "summary", "source")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))
        return
    console.print(choice_table(("name", "what it is", "source"), rows))


def deal(config: RunConfig, pool_labels: Any, data_dir: Path) -> Any:
    """Return who holds which images of the pool."""
    return split_pool(
        pool_labels,
        dataset=config.dataset,
        num_classes=find(config.dataset, data_dir).num_classes,
        overlap=config.overlap,
        balance=config.balance,
        num_clients=config.clients,
        split=config.split,
        seed=config.seed,
    )


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
