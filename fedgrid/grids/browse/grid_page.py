"""`fedgrid show GRID`: a page on a grid."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from rich.console import Console

from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.display.status import COUNTS, STOPPED, status
from fedgrid.grids.display.tables import summary_rows, summary_table
from fedgrid.grids.presets.axis_keys import AXES, value_text
from fedgrid.grids.results.asked import SUPERSEDED, superseded_line
from fedgrid.grids.results.axes import naming_keys
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import trust_times
from fedgrid.grids.results.runs import read_runs
from fedgrid.tracking.scoring.run import FINISHED, stopped_line

VALUES_SHOWN = 8
"""Values of an axis that are listed; of more, the first, the last and their number."""


def grid_facts(name: str, storage: Storage) -> dict[str, Any]:
    """Return what is known of a grid, ready for JSON.

    Raises:
        ConfigError: if it is damaged.
        RunError: if the storage cannot be read.
    """
    folder = GridFolder(storage, name)
    stored = folder.read()
    runs = stored.runs
    now = status(name, storage)
    with trust_times(storage):
        rows = read_runs(runs, storage)
    done = [row for row in rows if row.state == FINISHED]
    keys = (*AXES, *naming_keys(runs))
    values = {key: [value_text(run, key) for run in runs] for key in keys}
    return {
        "grid": name,
        "source": stored.source,
        "folder": f"{storage}/{folder.path.relative_to(storage.root)}",
        **{key: now[key] for key in ("driver", *COUNTS, STOPPED, SUPERSEDED, "failures")},
        "axes": {key: [one for one in dict.fromkeys(values[key]) if one is not None] for key in keys},
        "scores": summary_rows(done) if done else [],
        "ended_early": stopped_line(done),
        "runs": [{"run": row.name, "run_id": row.run_id, "state": row.state} for row in rows],
    }


def print_grid(facts: Mapping[str, Any], storage: Storage, console: Console) -> None:
    """Print what is known of a grid."""
    say, name = partial(print_plain, console), facts["grid"]
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
    width = max(map(len, facts["axes"]))
    for key, values in facts["axes"].items():
        say(f"  {key:<{width}}  {_join_values(values)}")
    say()
    if facts["scores"]:
        console.print(summary_table(facts["scores"], console.width))
        if facts["ended_early"]:
            say(facts["ended_early"])
        say()
    for failure in facts["failures"]:
        say(f"failed: {failure['run']} ({failure['run_id']}): {failure['cause']}")
    say(f"Files: {facts['folder']}")
    say(f"Its runs, with their ids:  {command(storage, 'runs', name, '--sort', 'ari')}")
    say(f"One of them:               {command(storage, 'show', facts['runs'][0]['run_id'])}")
    if not is_complete:
        say(f"Its progress:              {command(storage, 'status', name)}")
    if facts["done"]:
        say(f"Tables and figures:        {command(storage, 'report', name)}")


def _join_values(values: list[str]) -> str:
    if len(values) <= VALUES_SHOWN:
        return ", ".join(values)
    return f"{values[0]}, {values[1]}, ... {values[-1]} ({len(values)} values)"
