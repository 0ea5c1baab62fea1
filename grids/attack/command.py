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
from fedgrid.grids.attack.results import FOLDER, AttackFiles, Row
from fedgrid.grids.attack.show import summary_of, table_of
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.tables import page_table
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
    as_json: bool = False,
) -> int:
    """Attack every finished run of a grid that was not attacked so before; return how many attacks failed.

    Raises:
        ConfigError, DataError: no run is finished, or the images are missing.
        RunError: the storage cannot be written.
    """
    storage.pull_marks()
    grid = GridFolder(storage, name)
    configs = grid.runs()
    done = [config for config in configs if is_finished(storage, config)]
    if not done:
        raise ConfigError(
            f"none of the {len(configs)} runs of {name} is finished, so there is nothing to attack; "
            "`fedgrid run` goes on"
        )
    runs = {run.run_id: run for run in describe(configs, storage)}
    found: list[tuple[Run, Row]] = []
    attacked = failed = 0
    for config in done:
        files = AttackFiles(storage, config, settings)
        rows = files.read()
        if rows is None:
            try:
                rows = _attack(files, runs[config.run_id].algorithm, data_dir)
                attacked += 1
                if not as_json:
                    print_plain(console, f"attacked {config.name}: {runs[config.run_id].algorithm}")
            except FedgridError as error:
                failed += 1
                warn(f"{config.name}: {in_one_line(error)}")
                continue
        found += [(runs[config.run_id], row) for row in rows]
    if len(done) < len(configs):
        warn(f"{len(configs) - len(done)} of {len(configs)} runs are not finished, so not attacked")
    path = f"{FOLDER}/{settings.key}.csv"
    grid.write(path, _csv(found))
    results = {run.run_id: read_result(run) for run in {run.run_id: run for run, _ in found}.values()}
    summary = summary_of(settings.kind, found, results)
    if as_json:
        print(json.dumps({"grid": name, "attacked": attacked, "failed": failed, "rows": summary}))
        return failed
    if summary:
        console.print(page_table(table_of(settings.kind, summary), console.width))
        print_plain(console, table_of(settings.kind, summary).caption)
    if not attacked and not failed:
        print_plain(console, "attacked before: nothing to do")
    print_plain(console, f"Every client: {grid.path / path}")
    return failed


def _attack(files: AttackFiles, title: str, data_dir: Path) -> list[Row]:
    """Attack one run, keep the results and return them."""
    # Importing torch takes seconds.
    from fedgrid.engine.attacks.attack import attacked
    from fedgrid.engine.attacks.observed import observe
    from fedgrid.engine.clients.machine import fixed_numerics

    before, after = files.states()
    observed = observe(files.config, before, after, data_dir)
    _check_norms(files, {client: sent.norm for client, sent in observed.sent.items()})
    encoder = _encoder(files) if files.settings.kind == "reconstruction" else None
    with fixed_numerics(files.config.training.tf32):
        rows, found = attacked(observed, files.settings, encoder)
    pictures = {}
    if found:
        from fedgrid.grids.attack.pictures import drawn

        pictures["images"] = drawn(found, f"{files.config.scenario}, seed {files.config.seed}: {title}")
    files.write(rows, pictures)
    return list(rows)


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
