"""`fedgrid run --dry-run`: the runs, resources and time of a grid; starts, downloads and writes nothing."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedgrid.engine.clients.placement import Node, Placement, Request, at_once, describe, plan
from fedgrid.engine.data.datasets import find, is_here
from fedgrid.engine.run_folder import RunFolder
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.planning.calibrate import BUDGET, Speed, Workload, calibrate, expected_images, run_seconds
from fedgrid.grids.planning.cluster import least_stacked, num_to_place
from fedgrid.grids.planning.encoders import RoundsLeft, encoder_plans, workloads_of
from fedgrid.grids.planning.gpu_share import with_share_here
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.axes import name_of, naming_keys

RUNS_LISTED = 20


@dataclass(frozen=True)
class DatasetRow:
    """The runs of a grid on one data set."""

    dataset: str
    runs: int
    trunks: int
    """Groups of these runs that begin with the same rounds."""
    finished: int
    rounds_left: int
    clients: tuple[int, ...]
    download_mb: int
    """Size of the images that the remaining runs need and that are not here yet."""
    hours: float
    """A rough estimate, with all nodes at work on these runs and without a round cache."""
    encoders: int = 0
    """How many are trained before the first rounds, which is part of `hours`."""


@dataclass(frozen=True)
class Capacity:
    """How runs of a given number of clients fit on the nodes."""

    clients: int
    placement: Placement
    at_once: int
    """How many such runs the nodes hold at the same time, if that many are waiting."""
    workers: int
    """Cores, or GPUs, that these runs keep busy."""

    @property
    def reserves(self) -> str:
        """The resources of a run, in words."""
        actors = self.placement.num_actors
        each = f"{self.placement.cpus_per_actor:g} CPU"
        if self.placement.gpus_per_actor:
            each += f", {self.placement.gpus_per_actor:g} GPU"
        if actors == self.clients:
            return f"server + {actors} clients x {each}"
        fewest, most = self.clients // actors, -(-self.clients // actors)
        hosted = f"{most}" if most == fewest else f"{fewest} or {most}"
        if actors == 1:
            return f"server + 1 actor of {hosted} clients, {each}"
        return f"server + {actors} actors of {hosted} clients, {each} each"


def dry_run(
    grid: Grid,
    storage: Storage,
    data_dir: Path,
    nodes: Sequence[Node],
    request: Request,
    *,
    with_store: bool = True,
    as_json: bool,
    console: Console,
) -> None:
    """Show what a grid's runs need, how much of it is done, and roughly how long the rest takes.

    With a round cache (`with_store`) the time is an upper bound: how many rounds runs share depends on when
    their algorithms diverge from FedAvg.

    Raises:
        ConfigError: if a run cannot fit on the nodes, or its data set is too small for its split.
        RunError: if the storage cannot be read, or a model cannot be trained as configured.
    """
    storage.pull_marks()
    left = [(run, run.training.rounds - RunFolder(storage, run).rounds_done) for run in grid.runs]
    request = with_share_here([run for run, rounds in left if rounds], nodes, request, data_dir)
    capacities = capacities_of(left, nodes, request, by_trunk=with_store)
    workloads = workloads_of(left, data_dir)
    device = _device(capacities)
    with nullcontext() if as_json else console.status(f"Timing the models, at most {BUDGET:g} s ..."):
        speeds = calibrate(workloads, device)
    rows = dataset_rows(left, data_dir, speeds, capacities)
    if as_json:
        plan_json = _as_json(grid.name, rows, capacities, nodes, device) | {"runs": runs_of(left)}
        print(json.dumps(plan_json, indent=2))
    else:
        _show(grid.name, rows, capacities, nodes, device, with_store, console)
        _list_runs(runs_of(left), console)
        print_plain(console, "Nothing was started, downloaded or written.")


def runs_of(left: RoundsLeft) -> list[dict[str, Any]]:
    """Return name, id, number of rounds and rounds still to compute of each run."""
    keys = naming_keys([run for run, _ in left])
    return [
        {
            "run": name_of(run, keys),
            "run_id": run.run_id,
            "rounds": run.training.rounds,
            "rounds_left": rounds,
        }
        for run, rounds in left
    ]


def _list_runs(runs: Sequence[Mapping[str, Any]], console: Console) -> None:
    """List the runs; of more than `RUNS_LISTED` the first."""
    print_plain(console, "\nRuns, in this order unless others share their rounds:")
    for run in runs[:RUNS_LISTED]:
        done = run["rounds"] - run["rounds_left"]
        state = "finished" if not run["rounds_left"] else f"from round {done + 1}" if done else "new"
        print_plain(console, f"  {run['run_id']}  {run['run']}: {state}")
    if len(runs) > RUNS_LISTED:
        print_plain(console, f"  and {len(runs) - RUNS_LISTED} more; all of them with --json")


def capacities_of(
    left: RoundsLeft, nodes: Sequence[Node], request: Request, *, by_trunk: bool = False
) -> list[Capacity]:
    """Return how the runs fit, one entry a number of clients; `by_trunk`: see `num_to_place`.

    Raises:
        ConfigError: if a run cannot fit on the nodes.
    """
    waiting = max(1, num_to_place([run for run, rounds in left if rounds], by_trunk=by_trunk))
    capacities = []
    stacks = least_stacked(run for run, _ in left)
    for clients in sorted(stacks):
        placement = plan(clients, nodes, request, waiting, stacks[clients])
        runs = at_once(placement, nodes)
        # Actors that share a GPU, or a core, take turns on it.
        has = sum(int(node.gpus if placement.gpus_per_actor else node.cpus) for node in nodes)
        workers = min(max(1, has), min(runs, waiting) * placement.num_actors)
        capacities.append(Capacity(clients, placement, runs, workers))
    return capacities


def dataset_rows(
    left: RoundsLeft, data_dir: Path, speeds: Mapping[Workload, Speed], capacities: Sequence[Capacity]
) -> list[DatasetRow]:
    """Return a row a data set, in the order of the runs; `speeds` has every unfinished workload."""
    workers = {capacity.clients: capacity.workers for capacity in capacities}
    rows = []
    for name in dict.fromkeys(run.dataset for run, _ in left):
        dataset = find(name, data_dir)
        runs = [run for run, _ in left if run.dataset == name]
        waiting = [(run, rounds) for run, rounds in left if run.dataset == name and rounds]
        encoders = encoder_plans(waiting, dataset, data_dir)
        seconds = sum(plan.seconds(speeds, max(workers.values())) for plan in encoders) + sum(
            run_seconds(run, expected_images(run, dataset), speeds[Workload.of(run, dataset)], rounds)
            / workers[run.clients]
            for run, rounds in waiting
        )
        rows.append(
            DatasetRow(
                dataset=name,
                runs=len(runs),
                trunks=len({run.trunk for run in runs}),
                finished=len(runs) - len(waiting),
                rounds_left=sum(rounds for _, rounds in waiting),
                clients=tuple(sorted({run.clients for run in runs})),
                download_mb=dataset.download_mb if waiting and not is_here(name, data_dir) else 0,
                hours=seconds / 3600,
                encoders=len(encoders),
            )
        )
    return rows


def _device(capacities: Sequence[Capacity]) -> str:
    """Return the device to time on: `cuda` if runs reserve GPUs and this machine has one, else `cpu`."""
    import torch

    on_gpu = any(capacity.placement.gpus_per_actor for capacity in capacities)
    return "cuda" if on_gpu and torch.cuda.is_available() else "cpu"


def _total(rows: Sequence[DatasetRow]) -> dict[str, Any]:
    names = ("runs", "trunks", "finished", "rounds_left", "download_mb", "hours", "encoders")
    return {name: sum(getattr(row, name) for row in rows) for name in names}


def _as_json(
    name: str, rows: Sequence[DatasetRow], capacities: Sequence[Capacity], nodes: Sequence[Node], device: str
) -> dict[str, Any]:
    return {
        "grid": name,
        "datasets": [asdict(row) for row in rows],
        "total": _total(rows),
        "resources": [asdict(capacity) | {"reserves": capacity.reserves} for capacity in capacities],
        "nodes": [asdict(node) for node in nodes],
        "timed_on": device,
    }


def _show(
    name: str,
    rows: Sequence[DatasetRow],
    capacities: Sequence[Capacity],
    nodes: Sequence[Node],
    device: str,
    with_store: bool,
    console: Console,
) -> None:
    say = partial(print_plain, console)
    total = _total(rows)
    console.print(_dataset_table(name, rows, total))
    say("")
    console.print(_capacity_table(capacities))
    say(f"\nHere: {describe(nodes)}.")
    if total["rounds_left"]:
        say(_about_time(capacities, device))
        if count := total["encoders"]:
            say(f"With {count} encoder{'s' * (count > 1)}, each trained once, unless the storage has it.")
        if with_store and total["trunks"] < total["runs"]:
            shared = f"{total['trunks']} trunks for {total['runs']} runs"
            say(f"At most: runs of one trunk share their first rounds ({shared}).")


def _about_time(capacities: Sequence[Capacity], device: str) -> str:
    what = "GPU" if device == "cuda" else "core"
    note = f"Time: estimated from some seconds of training on random images on a {what} here"
    on_gpu = any(capacity.placement.gpus_per_actor for capacity in capacities)
    return f"{note};\nwith the cluster's GPUs it is much less." if on_gpu and what == "core" else f"{note}."


def _dataset_table(name: str, rows: Sequence[DatasetRow], total: Mapping[str, Any]) -> Table:
    table = _table(
        f"Grid {name}", "data set", "runs", "finished", "rounds left", "clients", "download", "time"
    )
    for row in rows:
        clients = ", ".join(map(str, row.clients))
        table.add_row(Text(row.dataset), *_cells(asdict(row), clients), end_section=row is rows[-1])
    table.add_row("total", *_cells(total, ""), style="bold")
    return table


def _capacity_table(capacities: Sequence[Capacity]) -> Table:
    table = _table("Resources", "clients", "a run reserves", "at once here")
    for capacity in capacities:
        table.add_row(str(capacity.clients), capacity.reserves, str(capacity.at_once))
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(
        title=Text(title),
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for heading in headings:
        is_text = heading in ("data set", "a run reserves")
        table.add_column(heading, justify="left" if is_text else "right", overflow="fold")
    return table


def _cells(row: Mapping[str, Any], clients: str) -> list[str]:
    return [
        f"{row['runs']:,}",
        f"{row['finished']:,}",
        f"{row['rounds_left']:,}",
        clients,
        f"{row['download_mb']:,} MB" if row["download_mb"] else "–",
        _roughly(row["hours"]) if row["rounds_left"] else "–",
    ]


def _roughly(hours: float) -> str:
    if hours < 1:
        return f"{max(1, round(60 * hours))} min"
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"
