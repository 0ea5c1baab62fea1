"""`fedgrid show RUN`: a page on one run."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.browse.charts import cluster_map, sparkline
from fedgrid.grids.browse.run_facts import CURVES, shown_rounds
from fedgrid.grids.browse.runs import cell
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.display.tables import RESULT_COLUMNS, choice_table, duration
from fedgrid.grids.round_cache.table import readable_size
from fedgrid.grids.trackers.annotations import Annotations
from fedgrid.tracking.scoring.selection import text_of

HEADINGS = {
    "temperature": "temp.",
    "clusters": "clusters",
    "ari": "ARI",
    "personalised_accuracy": "pers. acc.",
    "generalised_accuracy": "gen. acc.",
    "bytes": "sent so far",
}
SPARKS = ("temperature", "personalised_accuracy")
"""Curves that are drawn."""
WIDTH = 60
"""Characters of a sparkline at most."""


def print_run(facts: Mapping[str, Any], storage: Storage, console: Console) -> None:
    """Print what is known of a run."""
    say = partial(print_plain, console)
    in_grids = f"; in {', '.join(facts['grids'])}" if facts["grids"] else ""
    say(f"{facts['run']}  ({facts['run_id']}{in_grids})")
    say(f"{facts['state']}: {facts['cause']}" if facts["cause"] else _pace(facts))
    for text in Annotations(facts["note"] or "", facts["tags"]).lines():
        say(text)
    say()
    say(_settings(facts))
    if facts["round"]:
        say()
        _print_curves(facts, console)
        say()
        console.print(_rounds_table(facts))
        say()
        labels_RK, truth_K = np.array(facts["clusters"]), np.array(facts["hidden_groups"])
        for line in cluster_map(labels_RK, truth_K, np.array(facts["round"]), console.width):
            console.print(line, soft_wrap=True)
    if facts["scores"]:
        say()
        scores = [cell(facts["scores"][name]) for name in RESULT_COLUMNS]
        console.print(choice_table(list(RESULT_COLUMNS.values()), [scores]))
    for sentence in facts["idle"]:
        say(f"note: {sentence}")
    for note in facts["notes"]:
        say(f"log: {note}")
    say()
    say(f"Files: {facts['folder']}")
    if facts["grids"]:
        say(f"All runs beside it:  {command(storage, 'runs', facts['grids'][0])}")


def _pace(facts: Mapping[str, Any]) -> str:
    if facts["seconds"] is None:
        return str(facts["state"])
    time = f"{facts['state']}, {facts['rounds']} rounds in {duration(facts['seconds'])}"
    if facts["uncached_seconds"] > facts["seconds"] + 0.05:
        return f"{time} ({duration(facts['uncached_seconds'])} without the round cache)"
    return time


def _settings(facts: Mapping[str, Any]) -> str:
    changed = facts["changed"]
    if changed is None:
        return "Its images are not on this machine, so defaults are unknown; config.json has all settings."
    if not changed:
        return f"Model {facts['model']}; all settings have their defaults."
    lines = [
        f"  {key} = {text_of(one['value'])}"
        + (f"  (default {text_of(one['default'])})" if one["default"] is not None else "")
        for key, one in changed.items()
    ]
    return "\n".join([f"Model {facts['model']}. Differs from the defaults in:", *lines])


def _print_curves(facts: Mapping[str, Any], console: Console) -> None:
    for name in SPARKS:
        values_R = np.array([np.nan if value is None else value for value in facts["curves"][name]])
        known = values_R[~np.isnan(values_R)]
        if len(known):
            line = f"{HEADINGS[name]:<10} {known[0]:.3f} {sparkline(values_R, WIDTH)} {known[-1]:.3f}"
            print_plain(console, f"{line}   from {known.min():.3f} to {known.max():.3f}")


def _rounds_table(facts: Mapping[str, Any]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("round", *(HEADINGS[name] for name in CURVES)):
        table.add_column(heading, justify="right")
    table.add_column("what happened")
    places = {number: place for place, number in enumerate(facts["round"])}
    for number in shown_rounds(np.array(facts["round"]), facts["events"]):
        values = {name: facts["curves"][name][places[number]] for name in CURVES}
        cells = [_cell(name, value) for name, value in values.items()]
        table.add_row(str(number), *cells, facts["events"].get(number, ""))
    return table


def _cell(name: str, value: float | None) -> str:
    if value is not None and name == "bytes":
        return readable_size(int(value))
    return cell(int(value) if value is not None and name == "clusters" else value)
