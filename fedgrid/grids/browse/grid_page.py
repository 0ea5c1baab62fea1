"""`fedgrid show GRID`: what a grid is, and its runs."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from rich.console import Console

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.browse.runs import RunList, print_list, read_list, run_facts
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.display.status import COUNTS, STOPPED, status
from fedgrid.grids.display.text_table import print_pairs
from fedgrid.grids.presets.axis_keys import AXES, value_text
from fedgrid.grids.results.axes import naming_keys
from fedgrid.grids.results.grid_folder import SUPERSEDED, GridFolder, superseded_line
from fedgrid.grids.results.outcome import trust_times
from fedgrid.tracking.scoring.run import FINISHED, stopped_line

VALUES_SHOWN = 8
"""Values of an axis that are listed; of more, the first, the last and their number."""


def grid_facts(name: str, storage: Storage) -> dict[str, Any]:
    """Return what is known of a grid beside its runs, ready for JSON.

    Raises:
        ConfigError: if it is damaged.
        RunError: if the storage cannot be read.
    """
    folder = GridFolder(storage, name)
    stored = folder.read()
    now = status(name, storage)
    keys = (*AXES, *naming_keys(stored.runs))
    values = {key: [value_text(run, key) for run in stored.runs] for key in keys}
    return {
        "grid": name,
        "source": stored.source,
        "folder": f"{storage}/{folder.path.relative_to(storage.root)}",
        **{key: now[key] for key in ("driver", *COUNTS, STOPPED, SUPERSEDED, "failures")},
        "axes": {key: [one for one in dict.fromkeys(values[key]) if one is not None] for key in keys},
    }


def show_grid(name: str, options: RunList, storage: Storage, as_json: bool, console: Console) -> None:
    """Print what is known of a grid, and its runs; as CSV the runs alone.

    Raises:
        ConfigError: if it is damaged, there is no such column, or a condition is malformed.
        RunError: if the storage cannot be read.
    """
    if options.as_csv and as_json:
        raise ConfigError("choose one of --csv and --json")
    with trust_times(storage):
        rows, columns, conditions, count = read_list(name, options, storage)
    if options.as_csv:
        print_list(rows, columns, conditions, options, console)
        return
    facts = grid_facts(name, storage)
    if as_json:
        print(json.dumps({**facts, "runs": run_facts(rows, columns)}))
        return
    _print_head(facts, storage, console)
    print_list(rows, columns, conditions, options, console)
    say = partial(print_plain, console)
    if len(rows) < count:
        say(f"{len(rows)} of {count} runs")
    if line := stopped_line([row for row in rows if row.state == FINISHED]):
        say(line)
    say()
    for failure in facts["failures"]:
        say(f"failed: {failure['run']} ({failure['run_id']}): {failure['cause']}")
    more = {"Files:": facts["folder"]}
    if rows:
        more["One of them:"] = command(storage, "show", rows[0].run_id)
    more["All columns:"] = command(storage, "show", name, "--columns", "all", "--csv")
    if facts["done"] + facts[STOPPED] < facts["total"]:
        more["Its progress:"] = command(storage, "status", name)
    if facts["done"]:
        more["Means over seeds:"] = command(storage, "table", name)
        more["Tables and figures:"] = command(storage, "report", name)
    print_pairs(console, more)


def _print_head(facts: Mapping[str, Any], storage: Storage, console: Console) -> None:
    say = partial(print_plain, console)
    where = f"running on {facts['driver']}" if facts["driver"] else "not running"
    kinds = ("running", "waiting", "failed", STOPPED)
    counts = ", ".join(f"{facts[kind]} {kind.replace('_', ' ')}" for kind in kinds if facts[kind])
    state = f"{facts['done']} of {facts['total']} runs finished" + (f", {counts}" if counts else "")
    is_complete = facts["done"] + facts[STOPPED] == facts["total"]
    say(f"{facts['grid']}: {state}; {'complete' if is_complete else where}")
    if facts[SUPERSEDED]:
        say(superseded_line(facts["grid"], facts[SUPERSEDED], storage))
    if facts["source"]:
        say(f"From {facts['source']}")
    print_pairs(console, {key: _join_values(values) for key, values in facts["axes"].items()}, "  ")
    say()


def _join_values(values: list[str]) -> str:
    if len(values) <= VALUES_SHOWN:
        return ", ".join(values)
    return f"{values[0]}, {values[1]}, ... {values[-1]} ({len(values)} values)"
