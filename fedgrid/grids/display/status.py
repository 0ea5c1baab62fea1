"""Show the progress of grids for `fedgrid status`, and stop one for `fedgrid stop`.

A grid may run in another process or on another machine: all that is shown is read from the storage.
"""

import json
import time
from collections.abc import Mapping, Sequence
from functools import partial
from io import StringIO
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.leases.driver import find_driver
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.format import DamagedFile, UnreadableFile, describe_next_step
from fedgrid.engine.runtime.storage.hints import explain_missing_grid, format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import PlainConsole, print_plain, warn
from fedgrid.grids.display.tables import format_cell, format_duration, format_pace
from fedgrid.grids.display.text_table import TextTable
from fedgrid.grids.results.axes import find_naming_keys, format_run_name
from fedgrid.grids.results.grid_folder import SUPERSEDED, GridFolder, list_grids, superseded_line
from fedgrid.grids.results.outcome import inspect_run, trust_times

COUNTS = ("total", "done", "running", "waiting", "failed")
"""Keys of the counts of runs in a grid's status."""
WATCH_SECONDS = 2.0
"""Seconds between two readings of the storage with `--watch`."""
STOPPED = "stopped_early"
"""Key of the number of runs that a search has stopped early; they are done, although they have not finished.
"""


def show_status(name: str, storage: Storage, as_json: bool, console: Console) -> None:
    """Print the progress of a grid.

    Args:
        name: the grid.
        storage: where it is.
        as_json: whether a JSON object is printed in place of text.
        console: where text is printed.

    Raises:
        ConfigError: if no grid of that name was launched in this storage.
    """
    now = read_status(name, storage)
    if as_json:
        print(json.dumps(now))
    else:
        _print_status(now, storage, console)


def watch_status(name: str | None, storage: Storage, as_json: bool, console: Console) -> None:
    """Show the progress of a grid in place while a driver runs it; then print it as `show_status` does.

    Args:
        name: the grid; None if the user named none, which is an error.
        storage: where it is.
        as_json: whether the user wants JSON, which cannot be combined with watching.
        console: a terminal.

    Raises:
        ConfigError: no grid is named, none of that name was launched, or the output is no terminal.
    """
    if name is None or as_json or not console.is_interactive:
        raise ConfigError(
            "--watch shows one grid on a terminal: name the grid, leave out --json; without a terminal use "
            "status --json"
        )
    with Live(console=console, transient=True, auto_refresh=False) as live:
        while (now := read_status(name, storage))["driver"] is not None:
            # Printed into a text first: `Live` replaces one renderable in place, and the page consists of
            # many prints.
            page = StringIO()
            _print_status(now, storage, PlainConsole(file=page, force_terminal=True, width=console.width))
            live.update(Text.from_ansi(page.getvalue()), refresh=True)
            time.sleep(WATCH_SECONDS)
    _print_status(now, storage, console)


def _print_status(now: Mapping[str, Any], storage: Storage, console: Console) -> None:
    """Print the status of a grid: state, runs in progress, damaged files, failures."""
    say = partial(print_plain, console)
    for line in format_state_lines(now, storage):
        say(line)
    if now["runs"]:
        rows = [(run["run"], f"{run['round']}/{run['rounds']}") for run in now["runs"]]
        console.print(TextTable(("run", "round"), rows))
    for reason in now["damaged"].values():
        say(describe_next_step(reason, "the next launch sets it aside, and runs its run again"))
    if now["failures"]:
        failed = [
            (f"{failure['run']}, {failure['run_id']}", str(failure["attempts"]), failure["cause"])
            for failure in now["failures"]
        ]
        console.print(TextTable(("run", "attempts", "cause"), failed, "Failed", numbers=[1]))
        say(
            f"`{format_command(storage, 'run', now['grid'], '--failed')}` runs them again from their last "
            "rounds."
        )


def format_state_lines(now: Mapping[str, Any], storage: Storage) -> list[str]:
    """Format the first lines about a grid: whether it runs, its counts and pace, its superseded runs."""
    counts = [f"{now[kind]} {kind}" for kind in COUNTS[1:]]
    # Only a search has such runs.
    counts += [f"{now[STOPPED]} stopped early"] if now[STOPPED] else []
    lines = [
        f"{now['grid']}: {_describe_driver(now)}",
        f"{now['total']} runs: {', '.join(counts)}{_describe_pace(now)}",
    ]
    return lines + ([superseded_line(now["grid"], now[SUPERSEDED], storage)] if now[SUPERSEDED] else [])


def show_all_grids(storage: Storage, as_json: bool, console: Console) -> None:
    """Print the progress of every grid of a storage, a row for each.

    Raises:
        RunError: if the storage cannot be read.
    """
    storage.pull_marks()
    grids = [_summarise_grid(name, storage) for name in list_grids(storage)]
    if as_json:
        print(json.dumps(grids))
        return
    if not grids:
        print_plain(console, f"{explain_missing_grid(storage, 'quickstart')}")
        return
    kinds = [*COUNTS, STOPPED] if any(one.get(STOPPED) for one in grids) else COUNTS
    headings = ("grid", "runs", *(kind.replace("_", " ") for kind in kinds[1:]), "state")
    rows = [[one["grid"], *(format_cell(one.get(kind)) for kind in kinds), one["state"]] for one in grids]
    console.print(TextTable(headings, rows, numbers=range(1, 1 + len(kinds))))
    print_plain(console, f"{storage}; more of one:  {format_command(storage, 'show', 'GRID')}")


def _summarise_grid(name: str, storage: Storage) -> dict[str, Any]:
    """Summarise a grid as counts and state; one that cannot be read has only the cause."""
    try:
        now = read_status(name, storage)
    except ConfigError as error:
        # One damaged grid must not hide the others.
        return {"grid": name, "state": str(error)}
    counts = {kind: now[kind] for kind in (*COUNTS, STOPPED)}
    return {"grid": name, **counts, "driver": now["driver"], "state": _describe_driver(now)}


def read_status(name: str, storage: Storage) -> dict[str, Any]:
    """Read the state of a grid: counts, runs in progress, failures with their causes, pace.

    Args:
        name: the grid.
        storage: where it is.

    Raises:
        ConfigError: no grid of that name was launched, or it is damaged.
    """
    storage.pull_marks()
    grid = GridFolder(storage, name)
    stored = grid.read_definition()
    runs = stored.runs
    driver = find_driver(storage, name)
    is_running = driver is not None
    # What a driver that has died wrote last would claim that runs are in progress.
    progress = _read_progress(grid) if is_running else {}
    with trust_times(storage):
        looks = [(run, inspect_run(storage, run)) for run in runs]
    damaged = {run.run_id: now.damage for run, now in looks if now.damage}
    failures = [
        {"run": run.name, "run_id": run.run_id, "cause": failure.cause, "attempts": failure.attempts}
        for run, now in looks
        if not now.is_finished and (failure := RunFolder(storage, run).read_failure())
    ]
    under_way = progress.get("running", [])
    # A run that failed or is in progress again was not stopped for good, whatever the list of the search
    # says.
    busy = {entry["run_id"] for entry in (*under_way, *failures)}
    stopped = {run.run_id for run, now in looks if not now.is_finished} - busy
    stopped &= grid.stopped_early()
    under_way, failures = (_add_axes_to_names(entry, runs) for entry in (under_way, failures))
    done = sum(now.is_finished for _, now in looks)
    return {
        "grid": name,
        "driver": driver.process if driver else None,
        "stopping": is_running and grid.is_stop_requested(),
        "total": len(runs),
        "done": done,
        "running": len(under_way),
        "waiting": len(runs) - done - len(under_way) - len(failures) - len(stopped),
        STOPPED: len(stopped),
        "failed": len(failures),
        SUPERSEDED: len(stored.superseded),
        "rounds_per_second": progress.get("rounds_per_second"),
        "seconds_left": progress.get("seconds_left"),
        "runs": under_way,
        "failures": failures,
        "damaged": damaged,
    }


def _read_progress(grid: GridFolder) -> dict[str, Any]:
    """Read what the grid's driver wrote last; empty, with a warning, if that cannot be read."""
    try:
        return grid.read_progress() or {}
    except (DamagedFile, UnreadableFile) as error:
        warn(f"{error}: the runs under way are not known before the driver writes it again")
        return {}


def request_stop(name: str, storage: Storage, console: Console) -> None:
    """Request that the driver of a grid stops after the rounds in progress.

    Raises:
        ConfigError: if no driver is running it.
    """
    grid = GridFolder(storage, name)
    # A misspelt name is reported as such, in place of "not running".
    grid.read_runs()
    driver = find_driver(storage, name)
    if driver is None:
        raise ConfigError(
            f"{name} is not running; `{format_command(storage, 'status', name)}` shows its progress"
        )
    grid.request_stop()
    print_plain(
        console, f"{name} on {driver.process} stops after the rounds under way; `fedgrid run` continues it"
    )


def _add_axes_to_names(
    entries: Sequence[Mapping[str, Any]], runs: Sequence[RunConfig]
) -> list[dict[str, Any]]:
    """Add the values of further axes to the names of runs, by which runs of one algorithm differ."""
    by_id = {run.run_id: run for run in runs} if entries else {}
    keys = find_naming_keys(runs) if entries else ()
    return [
        {
            **entry,
            "run": format_run_name(by_id[entry["run_id"]], keys)
            if entry["run_id"] in by_id
            else entry["run"],
        }
        for entry in entries
    ]


def _describe_driver(now: Mapping[str, Any]) -> str:
    """Describe where a grid runs, or whether it is finished."""
    if now["driver"] is None:
        return "finished" if now["done"] + now[STOPPED] == now["total"] else "not running"
    return f"running on {now['driver']}" + (", stopping" if now["stopping"] else "")


def _describe_pace(now: Mapping[str, Any]) -> str:
    """Format rounds per second and time left; empty while no driver reports them."""
    if not now["rounds_per_second"]:
        return ""
    left = now["seconds_left"]
    return f"; {format_pace(now['rounds_per_second'])}" + (f", {format_duration(left)} left" if left else "")
