"""`fedgrid attack`: attack the finished runs of a grid, keep the results, and show them."""

import csv
import json
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path

from rich.console import Console

from fedgrid.engine.attacks.settings import CLIENTS, STEPS, Attacking, AttackKind
from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.storage.lease import Lease
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.attack.mlflow_log import log_to_mlflow
from fedgrid.grids.attack.report import keep_summary
from fedgrid.grids.attack.results import FOLDER, AttackFiles, Row
from fedgrid.grids.attack.show import Summary, summary_of, table_of
from fedgrid.grids.attack.work import attack_all
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.tables import page_table
from fedgrid.grids.explain.choose import find_runs
from fedgrid.grids.planning.claims import of_further_results
from fedgrid.grids.results import kept_plugins
from fedgrid.grids.results.axes import name_of, naming_keys
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.study import describe
from fedgrid.tracking.scoring.study import Run, read_result


def settings_of(
    kind: AttackKind, clients: int | None, steps: int | None, round_number: int | None = None
) -> Attacking:
    """Return what a command line asks for.

    Raises:
        ConfigError: an option has no effect on this kind.
    """
    if kind == "reconstruction":
        return Attacking(kind=kind, clients=clients or CLIENTS, steps=steps or STEPS, round=round_number)
    for option, value in (("--clients", clients), ("--steps", steps)):
        if value is not None:
            raise ConfigError(f"{option} {value} has no effect with --kind {kind}, only with reconstruction")
    return Attacking(kind=kind, round=round_number)


def attack_grid(
    name: str,
    storage: Storage,
    data_dir: Path,
    settings: Attacking,
    console: Console,
    *,
    filters: Sequence[str] = (),
    processes: int = 1,
    as_json: bool = False,
) -> int:
    """Attack the finished runs of a grid, or one run, that were not attacked so before, and show all results.

    Returns:
        How many attacks failed.

    Raises:
        ConfigError, DataError: no run is finished, another driver has the grid or attacks its runs, or the
            images are missing.
        RunError: the storage cannot be written, or another driver has taken it over.
    """
    storage.pull_marks()
    grid_name, chosen = find_runs(name, storage, filters)
    done = [config for config in chosen if is_finished(storage, config)]
    if not done:
        raise ConfigError(
            f"none of the {len(chosen)} runs of {name} is finished, so there is nothing to attack; "
            "`fedgrid run` continues the grid"
        )
    if len(done) < len(chosen):
        warn(f"{len(chosen) - len(done)} of {len(chosen)} runs are not finished and were skipped")
    grid = GridFolder(storage, grid_name)
    with Lease(storage, grid_name, of_further_results("attacks", done), warn) as lease:
        lease.confirm()
        kept_plugins.restore(grid.path, storage, done)
        runs = {run.run_id: run for run in describe(grid.runs(), storage)}
        attacks = [AttackFiles(storage, config, _at(settings, config)) for config in done]
        screen = None if as_json else console
        attacked, failed = _attack(attacks, runs, grid, data_dir, lease, screen, processes)
        summary, path = _gather(grid, storage, settings, runs)
        log_to_mlflow(grid, storage, attacks)
    if as_json:
        print(json.dumps({"grid": grid_name, "attacked": attacked, "failed": failed, "rows": summary}))
        return failed
    _show(settings, summary, console)
    if not attacked and not failed:
        print_plain(console, "already attacked")
    print_plain(console, f"Every client: {path}")
    return failed


def _attack(
    attacks: Sequence[AttackFiles],
    runs: Mapping[str, Run],
    grid: GridFolder,
    data_dir: Path,
    lease: Lease,
    screen: Console | None,
    processes: int,
) -> tuple[int, int]:
    """Make the attacks that have no results yet; return how many were made, and how many have failed."""
    axes = naming_keys(grid.runs())
    todo = [(files, runs[files.config.run_id].algorithm) for files in attacks if files.read() is None]
    attacked = failed = 0
    for files, title, problem in attack_all(todo, grid.path, data_dir, processes):
        lease.check()
        shown = name_of(files.config, axes)
        if problem is not None:
            failed += 1
            warn(f"{shown}: {problem}")
            continue
        attacked += 1
        if screen is not None:
            print_plain(screen, f"attacked {shown}: {title}")
    return attacked, failed


def _gather(
    grid: GridFolder, storage: Storage, settings: Attacking, runs: Mapping[str, Run]
) -> tuple[Summary, Path]:
    """Write the results of all runs of a grid that were attacked so: for the report, and as csv."""
    of_runs = [
        (runs[config.run_id], AttackFiles(storage, config, _at(settings, config)).read() or [])
        for config in grid.runs()
        if is_finished(storage, config)
    ]
    found = [(run, row) for run, rows in of_runs for row in rows]
    path = f"{FOLDER}/{settings.key}.csv"
    grid.write(path, _csv(found))
    results = {run.run_id: read_result(run) for run, rows in of_runs if rows}
    summary = summary_of(settings.kind, found, results)
    if settings.round is None:
        keep_summary(grid, settings.kind, summary)
    return summary, grid.path / path


def _at(settings: Attacking, config: RunConfig) -> Attacking:
    """Return the attack on one run: after its last round it is the same with the round's number."""
    is_last = settings.round == config.training.rounds
    return settings.model_copy(update={"round": None}) if is_last else settings


def _show(settings: Attacking, summary: Summary, console: Console) -> None:
    for scenario in dict.fromkeys(row["scenario"] for row in summary):
        part = [row for row in summary if row["scenario"] == scenario]
        console.print(page_table(table_of(settings.kind, part, settings.round), console.width))
    if summary:
        print_plain(console, table_of(settings.kind, summary).caption)


def _csv(found: Sequence[tuple[Run, Row]]) -> str:
    """Return all rows as text, each with its run."""
    rows = [
        {
            "run": run.name,
            "run_id": run.run_id,
            "dataset": run.dataset,
            "split": run.split,
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
