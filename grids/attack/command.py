"""`fedgrid attack`: attack the finished runs of a grid, keep the results, and show them."""

import csv
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from rich.console import Console

from fedgrid.engine.attacks.settings import CLIENTS, STEPS, Attacking, Kind
from fedgrid.engine.errors import ConfigError, FedgridError, RunError, in_one_line
from fedgrid.engine.integrity.made_with import MADE_WITH, parts_of
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.attack.report import keep_summary
from fedgrid.grids.attack.results import FOLDER, AttackFiles, Row
from fedgrid.grids.attack.show import Summary, summary_of, table_of
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.tables import page_table
from fedgrid.grids.explain.choose import find_runs
from fedgrid.grids.results import kept_plugins
from fedgrid.grids.results.axes import name_of, naming_keys
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.study import describe
from fedgrid.tracking.scoring.study import Run, read_result

if TYPE_CHECKING:
    from fedgrid.engine.encoders.encoder import Encoder

SAME_NORM = 1e-6
"""Relative difference of an update's norm up to which it is the run's own."""


def settings_of(kind: Kind, clients: int | None, steps: int | None) -> Attacking:
    """Return what a command line asks for.

    Raises:
        ConfigError: an option has no effect on this kind.
    """
    if kind == "reconstruction":
        return Attacking(kind=kind, clients=clients or CLIENTS, steps=steps or STEPS)
    for option, value in (("--clients", clients), ("--steps", steps)):
        if value is not None:
            raise ConfigError(f"{option} {value} has no effect with --kind {kind}, only with reconstruction")
    return Attacking(kind=kind)


def attack_grid(
    name: str,
    storage: Storage,
    data_dir: Path,
    settings: Attacking,
    console: Console,
    *,
    filters: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Attack the finished runs of a grid, or one run, that were not attacked so before, and show all results.

    Returns:
        How many attacks failed.

    Raises:
        ConfigError, DataError: none of the runs is finished, or the images are missing.
        RunError: the storage cannot be written.
    """
    storage.pull_marks()
    grid_name, chosen = find_runs(name, storage, filters)
    done = [config for config in chosen if is_finished(storage, config)]
    if not done:
        raise ConfigError(
            f"none of the {len(chosen)} runs of {name} is finished, so there is nothing to attack; "
            "`fedgrid run` goes on"
        )
    if len(done) < len(chosen):
        warn(f"{len(chosen) - len(done)} of {len(chosen)} runs are not finished, so not attacked")
    grid = GridFolder(storage, grid_name)
    kept_plugins.restore(grid.path, storage, done)
    runs = {run.run_id: run for run in describe(grid.runs(), storage)}
    axes = naming_keys(grid.runs())
    attacked = failed = 0
    for files in (AttackFiles(storage, config, settings) for config in done):
        title, shown = runs[files.config.run_id].algorithm, name_of(files.config, axes)
        if files.read() is not None:
            continue
        try:
            _attack(files, title, data_dir)
        except FedgridError as error:
            failed += 1
            warn(f"{shown}: {in_one_line(error)}")
            continue
        attacked += 1
        if not as_json:
            print_plain(console, f"attacked {shown}: {title}")
    summary, path = _gather(grid, storage, settings, runs)
    if as_json:
        print(json.dumps({"grid": grid_name, "attacked": attacked, "failed": failed, "rows": summary}))
        return failed
    _show(settings.kind, summary, console)
    if not attacked and not failed:
        print_plain(console, "attacked before: nothing to do")
    print_plain(console, f"Every client: {path}")
    return failed


def _gather(
    grid: GridFolder, storage: Storage, settings: Attacking, runs: Mapping[str, Run]
) -> tuple[Summary, Path]:
    """Write the results of all runs of a grid that were attacked so: for the report, and as csv."""
    of_runs = [
        (runs[config.run_id], AttackFiles(storage, config, settings).read() or [])
        for config in grid.runs()
        if is_finished(storage, config)
    ]
    found = [(run, row) for run, rows in of_runs for row in rows]
    path = f"{FOLDER}/{settings.key}.csv"
    grid.write(path, _csv(found))
    results = {run.run_id: read_result(run) for run, rows in of_runs if rows}
    summary = summary_of(settings.kind, found, results)
    keep_summary(grid, settings.kind, summary)
    return summary, grid.path / path


def _show(kind: Kind, summary: Summary, console: Console) -> None:
    for scenario in dict.fromkeys(row["scenario"] for row in summary):
        part = [row for row in summary if row["scenario"] == scenario]
        console.print(page_table(table_of(kind, part), console.width))
    if summary:
        print_plain(console, table_of(kind, summary).caption)


def _attack(files: AttackFiles, title: str, data_dir: Path) -> None:
    """Attack one run, and keep the results."""
    # Importing torch takes seconds.
    from fedgrid.engine.attacks.attack import attacked
    from fedgrid.engine.attacks.observed import observe
    from fedgrid.engine.clients.machine import fixed_numerics

    before, after = files.states()
    encoder = _encoder(files)
    observed = observe(files.config, before, after, data_dir, encoder)
    _check_norms(files, {client: sent.norm for client, sent in observed.sent.items()})
    with fixed_numerics(files.config.training.tf32):
        rows, found = attacked(observed, files.settings, encoder)
    pictures = {}
    if found:
        from fedgrid.grids.attack.pictures import drawn

        pictures["images"] = drawn(found, f"{files.config.scenario}, seed {files.config.seed}: {title}")
    files.write(rows, pictures)


def _encoder(files: AttackFiles) -> "Encoder | None":
    """Return the encoder that made a run's messages, None if it had none.

    Raises:
        RunError: the storage no longer has it.
    """
    from fedgrid.engine.before_training.pretraining import ENCODER
    from fedgrid.engine.encoders import store

    message = files.config.make_algorithm().message()
    if message is None or message.encoder is None:
        return None
    parts = parts_of(files.run / MADE_WITH)
    encoder_id = str(parts[0].made_with.get(ENCODER, "")) if parts else ""
    encoder = store.read(files.storage, encoder_id) if encoder_id else None
    if encoder is None:
        raise RunError(f"{files.config.name}: its encoder {encoder_id} is not in {files.storage} any more")
    return encoder


def _check_norms(files: AttackFiles, norms: Mapping[int, float]) -> None:
    """Warn if the updates are not those of the run, as on another kind of machine."""
    found = pq.read_table(files.run / "clients.parquet", columns=["round", "client", "update_norm"])
    recorded = {
        row["client"]: row["update_norm"]
        for row in found.to_pylist()
        if row["round"] == files.config.training.rounds
    }
    other = [
        client
        for client, norm in norms.items()
        if not isclose(norm, recorded[client] or 0.0, rel_tol=SAME_NORM)
    ]
    if other:
        warn(
            f"{files.config.name}: the updates of {len(other)} clients are not those of the run, whose bits "
            "this machine does not give; they are attacked as they are here"
        )


def _csv(found: Sequence[tuple[Run, Row]]) -> str:
    """Return all rows as text, each with its run."""
    rows = [
        {
            "run": run.name,
            "run_id": run.run_id,
            "dataset": run.dataset,
            "overlap": run.overlap,
            "balance": run.balance,
            "num_clients": run.clients,
            "algorithm": run.algorithm,
            "seed": run.seed,
            **dict(run.setting),
            **row,
        }
        for run, row in found
    ]
    text = StringIO()
    columns = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
