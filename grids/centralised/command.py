"""`fedgrid centralised`: train on the whole pool, and propose epsilons for Sattler from the result."""

import json
import time
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from fedgrid.engine import centralised
from fedgrid.engine.centralised import CentralisedConfig
from fedgrid.engine.checkpoint import RunState
from fedgrid.engine.clients.machine import slow_precision, that_matter
from fedgrid.engine.clients.pool import Pool
from fedgrid.engine.data.datasets import find
from fedgrid.engine.data.identity import digest_of_dataset
from fedgrid.engine.epsilons import Proposal, propose
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.format import seal
from fedgrid.engine.integrity.made_with import made_with
from fedgrid.engine.storage.claims import Claims
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.engine.storage.storage_id import claim
from fedgrid.grids.centralised.beside import rows_beside, show_beside
from fedgrid.grids.centralised.folder import (
    CENTRALISED,
    CONFIG,
    PROPOSAL,
    RECORDS,
    CentralisedFolder,
    set_options,
)
from fedgrid.grids.centralised.show import show
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.mlflow_log.mark import is_logged
from fedgrid.grids.mlflow_log.run_log import artifact_root
from fedgrid.grids.mlflow_log.tags import origin
from fedgrid.grids.planning.origins import check_centralised
from fedgrid.grids.presets.changes import Change
from fedgrid.redaction import redacted
from fedgrid.tracking.mlflow.runs import Experiment
from fedgrid.tracking.mlflow.store import TrackingError, tracking_uri


def configure(
    dataset: str, data_dir: Path, *, seed: int, epochs: int | None, model: str | None, changes: Sequence[str]
) -> CentralisedConfig:
    """Return the configuration that a command line describes.

    Raises:
        ConfigError: if a name or value is wrong.
        DataError: for a `folder:` or `npz:` data set that cannot be read.
    """
    values: dict[str, Any] = {} if model is None else {"model": model}
    for change in map(Change.parse, changes):
        if change.keys != ("model",) and not (change.keys[0] == "training" and len(change.keys) > 1):
            raise ConfigError(
                f"--set {change.text}: a centralised training has only model and training.KEY to set, as in "
                "training.learning_rate=0.05"
            )
        values = change.apply(values)
    return centralised.complete(dataset, data_dir, seed=seed, epochs=epochs, **values)


def run_centralised(
    config: CentralisedConfig,
    storage: Storage,
    data_dir: Path,
    as_json: bool,
    console: Console,
    *,
    fresh: bool = False,
    accept: bool = False,
) -> None:
    """Train, unless the training is finished, and show the result.

    Args:
        fresh: delete what there is of the training, and start over.
        accept: take epochs that were made with other code, versions or processors.

    Raises:
        ConfigError, DataError: for wrong settings or missing data, before anything is written, if another
            driver uses the storage, or for changes that are not accepted.
        RunError: if the training cannot go on, or its loss never falls.
    """
    try:
        uri = tracking_uri(storage.root)
    except TrackingError as error:
        raise ConfigError(str(error)) from error
    storage.check_writable()
    folder = CentralisedFolder(storage, config)
    was_finished = folder.read() and not fresh
    if not fresh:
        for note in check_centralised(config.name, config.dataset, folder.path, data_dir, accept=accept):
            warn(f"accepted: {note}")
    if was_finished:
        proposal = propose(folder.column("update_l2"), folder.column("loss"))
    else:
        folder, proposal = _trained(
            config, storage, data_dir, console, quiet=as_json, fresh=fresh, accept=accept
        )
    in_mlflow = _log(folder, uri, storage, fresh=fresh)
    beside = rows_beside(folder, storage)
    if as_json:
        output = _as_json(folder, proposal, was_finished=was_finished, mlflow=in_mlflow)
        print(json.dumps({**output, "beside": beside}))
        return
    show(folder, proposal, find(config.dataset, data_dir), console)
    show_beside(beside, config.dataset, console)
    if was_finished:
        print_plain(console, "already finished")


def _trained(
    config: CentralisedConfig,
    storage: Storage,
    data_dir: Path,
    console: Console,
    *,
    quiet: bool,
    fresh: bool,
    accept: bool,
) -> tuple[CentralisedFolder, Proposal]:
    """Train while holding the storage's lease; return the finished folder and its proposal."""
    # Importing torch takes seconds.
    import torch

    # Before anything is written, as images may be missing.
    pool = centralised.prepare(config, data_dir, "cuda" if torch.cuda.is_available() else "cpu")
    with Lease(storage, config.name, Claims({config.run_id: config.name}), warn) as lease:
        folder = CentralisedFolder(storage.patient(warn), config)
        if fresh:
            folder.forget()
        folder.read()
        begun = folder.open()
        machines = that_matter(pool.machines(), config.training.precision)
        if (slow := slow_precision(machines, config.training.precision)) is not None:
            warn(slow)
        now = made_with(None, digest_of_dataset(config.dataset, data_dir), machines)
        lease.confirm()
        folder.note_made_with(now, begun.rounds_done if begun else 0, accept=accept)
        _train(folder, begun, pool, lease, data_dir, console, quiet=quiet)
        proposal = propose(folder.column("update_l2"), folder.column("loss"))
        folder.finish(proposal)
    return folder, proposal


def _train(
    folder: CentralisedFolder,
    begun: RunState | None,
    pool: Pool,
    lease: Lease,
    data_dir: Path,
    console: Console,
    *,
    quiet: bool,
) -> None:
    """Train to the last epoch. A terminal shows a bar, a log gets a line for each epoch."""
    config = folder.config
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    shows_bar = console.is_terminal and not quiet
    with Progress(*columns, console=console, transient=True, disable=not shows_bar) as bar:
        task = bar.add_task(config.name, total=config.training.rounds, completed=len(folder.rows))
        for progress, row in centralised.train(config, data_dir, pool, begun):
            lease.check()
            folder.save(progress, row)
            bar.update(task, advance=1, description=f"{config.name} loss {row['loss']:.4f}")
            if not (shows_bar or quiet):
                print_plain(console, f"epoch {row['epoch']}/{config.training.rounds} loss {row['loss']:.4f}")


def _log(folder: CentralisedFolder, uri: str, storage: Storage, *, fresh: bool) -> bool:
    """Log a finished training to MLflow, unless it is there; return whether it is there now.

    If it is `fresh`, what MLflow has of an earlier one is deleted.
    """
    config, path = folder.config, folder.path
    if is_logged(uri, path, config.training.rounds):
        return True
    now = int(time.time() * 1000)
    epochs = [(row.pop("epoch"), row, now) for row in folder.rows]
    tags = {"dataset": config.dataset, "model": config.model, "seed": str(config.seed), **origin()}
    try:
        experiment = Experiment.open(uri, CENTRALISED, artifact_root(storage.root), claim(storage))
        if fresh:
            experiment.forget(config.run_id)
        entry = experiment.start(config.run_id, config.name, tags, config.model_dump(mode="json"))
        experiment.log_rounds(entry, epochs)
        experiment.log_artifacts(entry, [path / name for name in (CONFIG, RECORDS, PROPOSAL)])
        experiment.log_folder(entry, path / "figures", "figures")
        experiment.finish(entry, "FINISHED")
    except TrackingError as error:
        warn(f"{error}; the training is on disk, and the same command logs it when MLflow is back")
        return False
    mark = {"uri": redacted(uri), "mlflow_run_id": entry.mlflow_run_id, "rounds": config.training.rounds}
    folder.log_mark(seal(mark))
    return True


def _as_json(
    folder: CentralisedFolder,
    proposal: Proposal,
    *,
    was_finished: bool,
    mlflow: bool,
) -> dict[str, Any]:
    """Return the JSON output of the command."""
    epochs = [
        {name: value if isfinite(value) else None for name, value in row.items()} for row in folder.rows
    ]
    return {
        "name": folder.config.name,
        "run_id": folder.config.run_id,
        **folder.config.model_dump(mode="json"),
        "epochs": epochs,
        "proposal": {**proposal.settings, "epsilon_2_range": proposal.epsilon_2_range},
        "options": " ".join(set_options(proposal)),
        "folder": str(folder.path),
        "was_finished": was_finished,
        "mlflow": mlflow,
    }
