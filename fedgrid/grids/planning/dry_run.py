"""Print the plan of a grid for `fedgrid run --dry-run`: runs, resources and time.

Nothing is started, downloaded or written.
"""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from platform import machine, processor
from textwrap import fill
from typing import Any

from rich.console import Console

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.names import TABLES
from fedgrid.engine.runtime.clients.placement import Node, describe_nodes
from fedgrid.engine.runtime.configuration.idle_settings import format_idle_lines
from fedgrid.engine.runtime.data.datasets import find_dataset, is_here
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import print_marked, print_plain, warn
from fedgrid.grids.display.tables import format_estimate
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.planning.checks import check_data, check_stored, count_rounds_left, find_output_notes
from fedgrid.grids.planning.estimate import Capacity, Estimator, RoundsLeft, compute_capacities, plan_encoders
from fedgrid.grids.planning.gpu_share import add_gpu_share
from fedgrid.grids.planning.images import estimate_images, find_group_notes
from fedgrid.grids.planning.options import LaunchOptions
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.ray_cluster.cluster import find_nodes_to_run_on
from fedgrid.grids.results.axes import find_naming_keys, format_run_name
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.runs import describe_configs as describe_runs
from fedgrid.grids.results.runs import summarise_runs

RUNS_LISTED = 20
"""Most runs that the plan lists; with JSON all are listed."""
TOTALS = ("runs", "shared_prefixes", "finished", "rounds_left", "download_mb", "hours", "encoders")
"""Numbers of a `DatasetRow` that are added up over data sets."""
BUSY_LOAD = 0.75
"""Load of a core from which the output says that the machine has other work."""
ONE_CORE = (Node(1.0, 0.0),)
"""Nodes for the estimate of runs in this process."""
CPUINFO = Path("/proc/cpuinfo")


def show_plan(
    grid: Grid,
    todo: Sequence[RunConfig],
    done: Sequence[RunConfig],
    storage: Storage,
    options: LaunchOptions,
    console: Console,
) -> None:
    """Print what a grid's runs need, how much of it is done, and roughly how long the rest takes.

    Whatever a launch of `todo` refuses is refused here, and `done` is checked as there. In this process the
    runs would have one core. With a round cache the time is an upper bound.

    Args:
        grid: the grid.
        todo: its runs that are not finished.
        done: those that are.
        storage: where they are.
        options: how the grid would be launched.
        console: where the plan is printed; JSON goes to standard output.

    Raises:
        ConfigError, DataError: as a launch; a run cannot fit on the nodes, or its data set is too small for
            its split.
        RunError: if the storage cannot be read, or a model cannot be trained as configured.
    """
    check_stored(todo, done, storage, options)
    nodes = find_nodes_to_run_on(in_process=options.in_process, request=options.request)
    data_dir, with_cache = options.data_dir, options.cache is not None
    model_notes = find_output_notes(grid.runs, data_dir)
    for line in (*format_idle_lines(grid.runs), *model_notes, *find_group_notes(grid.runs, data_dir)):
        warn(line)
    own_data_runs = [run for run in grid.runs if ":" in run.dataset]
    # The user's own tables are read in a moment, images are not: the plan checks only the tables.
    table_runs = [run for run in own_data_runs if run.dataset.partition(":")[0] in TABLES]
    with options.open_steps(console) as steps:
        check_data(table_runs, data_dir, steps)
    if consequence := GridFolder(storage, grid.name).describe_consequence(grid):
        warn(f"{consequence}; the run asks first")
    left, taken = count_rounds_left(grid.runs, storage, options)
    unfinished = [run for run, rounds in left if rounds]
    for run in unfinished:
        # Refuses a number of clients for which there are too few images, before actors are counted for them.
        estimate_images(run, find_dataset(run.dataset, data_dir))
    # Only for the runs that are left: finished ones need no GPU.
    request = add_gpu_share(unfinished, nodes, options.request, data_dir)
    capacities = compute_capacities(left, nodes or ONE_CORE, request, by_shared_prefix=with_cache)
    device = _choose_device([*capacities.values()])
    with options.open_steps(console) as steps:
        steps.begin_step("Timing a step of each model")
        rows = build_dataset_rows(left, Estimator(data_dir, device, capacities))
    if any(row.download_mb for row in rows) and not data_dir.exists():
        print_marked("note:", "bold", f"--data-dir {data_dir} does not exist yet: the download goes there")
    plan = {
        "grid": grid.name,
        "datasets": [asdict(row) for row in rows],
        "total": {name: sum(getattr(row, name) for row in rows) for name in TOTALS} | {"rounds_taken": taken},
        # Without Ray there are no nodes and nothing is reserved.
        "resources": [asdict(one) | {"reserves": one.reserves} for one in capacities.values() if nodes],
        "nodes": [asdict(node) for node in nodes],
        "timed_on": device,
        "processor": read_processor_name(device),
        "about": _describe_settings(grid, storage),
        "runs": build_run_rows(left),
        "may_stop": any(run.training.stop_after is not None for run, rounds in left if rounds),
        "not_read": [*dict.fromkeys(run.dataset for run in own_data_runs if run not in table_runs)],
    }
    if options.as_json:
        print(json.dumps(plan, indent=2))
    else:
        _print_plan(plan, nodes, with_cache, console)


@dataclass(frozen=True)
class DatasetRow:
    """The runs of a grid on one data set; its fields are keys of the JSON plan."""

    dataset: str
    runs: int
    shared_prefixes: int
    """Number of groups of these runs whose first rounds are the same."""
    finished: int
    rounds_left: int
    clients: tuple[int, ...]
    download_mb: int
    """Megabytes of the images that the remaining runs need and that are not on this machine."""
    hours: float
    """Rough estimate of the remaining hours, with all nodes at work on these runs and without a round cache.
    """
    encoders: int = 0
    """Number of encoders that are trained before the first rounds, which is part of `hours`; default 0."""


def build_dataset_rows(left: RoundsLeft, estimator: Estimator) -> list[DatasetRow]:
    """Build a row for each data set, in the order of the runs.

    Raises:
        ConfigError, RunError: as `Estimator.estimate_hours`.
    """
    data_dir, rows = estimator.data_dir, []
    for name in dict.fromkeys(run.dataset for run, _ in left):
        runs = [run for run, _ in left if run.dataset == name]
        waiting = [(run, rounds) for run, rounds in left if run.dataset == name and rounds]
        encoders = plan_encoders(waiting, find_dataset(name, data_dir), data_dir)
        needed = {name, *(plan.public for plan in encoders if plan.public)} if waiting else set()
        away = [find_dataset(each, data_dir) for each in needed if not is_here(each, data_dir)]
        rows.append(
            DatasetRow(
                dataset=name,
                runs=len(runs),
                shared_prefixes=len({run.shared_prefix for run in runs}),
                finished=len(runs) - len(waiting),
                rounds_left=sum(rounds for _, rounds in waiting),
                clients=tuple(sorted({run.clients for run in runs})),
                download_mb=sum(one.download_mb for one in away),
                hours=estimator.estimate_hours(waiting, encoders),
                encoders=len(encoders),
            )
        )
    return rows


def _describe_settings(grid: Grid, storage: Storage) -> list[str]:
    """Describe the settings that all runs, or groups of runs, have in common."""
    distinct = {(run.algorithm.name, run.model, run.training, run.weights): run for run in grid.runs}
    return summarise_runs(describe_runs([*distinct.values()], storage))


def read_processor_name(device: str) -> str:
    """Read the name of this machine's processor, or of its GPU."""
    if device != "cpu":
        import torch

        return torch.cuda.get_device_name()
    with suppress(OSError):
        for line in CPUINFO.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    # Other systems have no such file; `processor()` may be empty, as in a container.
    return processor() or machine()


def build_run_rows(left: RoundsLeft) -> list[dict[str, Any]]:
    """Build a JSON row for each run: name, id, number of rounds and rounds left."""
    keys = find_naming_keys([run for run, _ in left])
    return [
        {
            "run": format_run_name(run, keys),
            "run_id": run.run_id,
            "rounds": run.training.rounds,
            "rounds_left": rounds,
        }
        for run, rounds in left
    ]


def _list_runs(runs: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print the first runs of the plan with their states."""
    print_plain(console, "\nRuns, in this order unless others share their rounds:")
    for run in runs[:RUNS_LISTED]:
        done = run["rounds"] - run["rounds_left"]
        state = "finished" if not run["rounds_left"] else f"from round {done + 1}" if done else "new"
        print_plain(console, f"  {run['run_id']}  {run['run']}: {state}")
    if len(runs) > RUNS_LISTED:
        print_plain(console, f"  and {len(runs) - RUNS_LISTED} more; all of them with --json")


def _choose_device(capacities: Sequence[Capacity]) -> str:
    """Choose the device to time on: `cuda` if runs reserve GPUs and this machine has one, else `cpu`."""
    import torch

    on_gpu = any(capacity.placement.gpus_per_actor for capacity in capacities)
    return "cuda" if on_gpu and torch.cuda.is_available() else "cpu"


def _print_plan(plan: Mapping[str, Any], nodes: Sequence[Node], with_cache: bool, console: Console) -> None:
    """Print the plan as tables and sentences."""
    say, total = partial(print_plain, console), plan["total"]
    headings = ("data set", "runs", "finished", "rounds left", "clients", "download", "time")
    rows: list[list[str]] = [
        [row["dataset"], *_format_cells(row, ", ".join(map(str, row["clients"])))] for row in plan["datasets"]
    ]
    rows += [[], ["total", *_format_cells(total, "")]]
    console.print(TextTable(headings, rows, f"Grid {plan['grid']}", range(1, len(headings))))
    say("")
    if nodes:
        reserved = [(str(one["clients"]), one["reserves"], str(one["at_once"])) for one in plan["resources"]]
        console.print(TextTable(("clients", "a run reserves", "at once here"), reserved, "Resources", (0, 2)))
        say(f"\nHere: {describe_nodes(nodes)}.")
    else:
        say("In this process: one run after another, on one core, without Ray.")
    if total["rounds_taken"]:
        say(f"{total['rounds_taken']:,} rounds are taken from finished runs with fewer rounds.")
    if total["rounds_left"]:
        say(_describe_timing(plan))
        if count := total["encoders"]:
            say(f"With {count} encoder{'s' * (count > 1)}, each trained once, unless the storage has it.")
        if with_cache and total["shared_prefixes"] < total["runs"]:
            prefixes = total["shared_prefixes"]
            shared = f"{total['runs']} runs, {prefixes} shared prefix{'es' * (prefixes != 1)}"
            say(f"At most: shared rounds are computed once ({shared}).")
        if plan["may_stop"]:
            say("At most: a run may end earlier (training.stop_after).")
    say("")
    for line in plan["about"]:
        say(fill(line, 79))
    _list_runs(plan["runs"], console)
    if plan["not_read"]:
        names = ", ".join(plan["not_read"])
        say(f"Not read: {names}; `fedgrid data`, as a run, says whether clients are tested on copies.")
    say("Nothing was started, downloaded or written.")


def _describe_timing(plan: Mapping[str, Any]) -> str:
    """Describe what the estimate is based on, and what makes it too low or too high."""
    what = "GPU" if plan["timed_on"] == "cuda" else "core"
    note = f"Time: from one training step a model on random images, on a\n{what} of {plan['processor']}"
    busy, cores = os.getloadavg()[0], os.cpu_count() or 1
    if busy > BUSY_LOAD * cores:
        note += f".\nIts {cores} cores have other work now (load {busy:.1f}): runs take longer while they do"
    on_gpu = any(one["placement"]["gpus_per_actor"] for one in plan["resources"])
    return f"{note};\nwith the cluster's GPUs it is much less." if on_gpu and what == "core" else f"{note}."


def _format_cells(row: Mapping[str, Any], clients: str) -> list[str]:
    """Format the numbers of a row of data sets, or of the total."""
    return [
        f"{row['runs']:,}",
        f"{row['finished']:,}",
        f"{row['rounds_left']:,}",
        clients,
        f"{row['download_mb']:,} MB" if row["download_mb"] else "–",
        format_estimate(row["hours"]) if row["rounds_left"] else "–",
    ]
