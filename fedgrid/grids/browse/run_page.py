"""`fedgrid show RUN`: a page on one run, with charts of characters: a sparkline, and the map of clusters.

Each block of the map is a character that names its cluster, black on its colour: without colours, as in a
file, the characters are read. Shapes: R rounds, K clients.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from string import ascii_letters, digits
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from fedgrid.engine.runtime.storage.hints import command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.browse.run_facts import choose_rounds
from fedgrid.grids.display.plain import print_plain
from fedgrid.grids.display.tables import cell, duration, readable_size
from fedgrid.grids.display.text_table import TextTable, print_pairs
from fedgrid.grids.results.result_columns import OF_NUMBERS, RESULT_COLUMNS
from fedgrid.grids.trackers.annotations import Annotations
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.scoring.selection import text_of

BARS = "▁▂▃▄▅▆▇█"
MARKS = digits + ascii_letters
OTHER = "#"
"""Of a cluster beyond the `MARKS`."""
COLOURS = (25, 214, 36, 176, 74, 166, 220, 99, 65, 131, 244, 30)
"""Of the 256 colours of a terminal."""
MOST_CLIENTS = 40
"""Clients that have a line each."""
LONGEST = 20
"""Letters of a group's name."""


EVERY_COLUMN = {**RESULT_COLUMNS, **OF_NUMBERS}
HEADINGS = {
    "temperature": "temp.",
    "bytes": "sent so far",
    **{name: heading.replace("-\n", "").replace("\n", " ") for name, heading in EVERY_COLUMN.items()},
}
SPARKS = ("temperature", "personalised_accuracy", "personalised_r2")
"""Curves that are drawn, beside numbers of the algorithm's own."""
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
    _print_settings(facts, console)
    if facts["round"]:
        say()
        _print_curves(facts, console)
        say()
        console.print(_rounds_table(facts))
        say()
        labels_RK, truth_K, client_K = (
            np.array(facts[key]) for key in ("clusters", "hidden_groups", "clients")
        )
        names = {int(group): name for group, name in facts["group_names"].items()}
        for line in cluster_map(labels_RK, truth_K, np.array(facts["round"]), console.width, names, client_K):
            console.print(line, soft_wrap=True)
    if facts["scores"]:
        say()
        scores = {EVERY_COLUMN[name]: cell(value) for name, value in facts["scores"].items()}
        console.print(TextTable(list(scores), [list(scores.values())]))
        for sentence in facts.get("coverage", ()):
            say(sentence)
    for sentence in facts["idle"]:
        say(f"note: {sentence}")
    for note in facts["notes"]:
        say(f"log: {note}")
    say()
    more = {"Files:": facts["folder"]}
    if facts["grids"]:
        more["All runs beside it:"] = command(storage, "show", facts["grids"][0])
    print_pairs(console, more)


def _pace(facts: Mapping[str, Any]) -> str:
    if facts["seconds"] is None:
        return str(facts["state"])
    length = facts["stopped"] or f"{facts['rounds']} rounds"
    time = f"{facts['state']}, {length} in {duration(facts['seconds'])}"
    if facts["uncached_seconds"] > facts["seconds"] + 0.05:
        return f"{time} ({duration(facts['uncached_seconds'])} without the round cache)"
    return time


def _print_settings(facts: Mapping[str, Any], console: Console) -> None:
    changed = facts["changed"]
    if changed is None:
        line = "Its images are not on this machine, so defaults are unknown; config.json has all settings."
    elif changed:
        line = f"Model {facts['model']}. Differs from the defaults in:"
    else:
        line = f"Model {facts['model']}; all settings have their defaults."
    print_plain(console, line)
    values = {
        key: text_of(one["value"])
        + (f"  (default {text_of(one['default'])})" if one["default"] is not None else "")
        for key, one in (changed or {}).items()
    }
    print_pairs(console, values, "  ")


def _print_curves(facts: Mapping[str, Any], console: Console) -> None:
    for name in (name for name in facts["curves"] if name in SPARKS or name not in HEADINGS):
        values_R = np.array([np.nan if value is None else value for value in facts["curves"][name]])
        measured = values_R[~np.isnan(values_R)]
        if len(measured):
            heading = HEADINGS.get(name, name)
            line = f"{heading:<10} {measured[0]:.3f} {sparkline(values_R, WIDTH)} {measured[-1]:.3f}"
            print_plain(console, f"{line}   from {measured.min():.3f} to {measured.max():.3f}")


def _rounds_table(facts: Mapping[str, Any]) -> TextTable:
    places = {number: place for place, number in enumerate(facts["round"])}
    rows, curves = [], facts["curves"]
    for number in choose_rounds(np.array(facts["round"]), facts["events"]):
        cells = [_cell(name, values[places[number]]) for name, values in curves.items()]
        rows.append([str(number), *cells, facts["events"].get(number, "")])
    headings = ("round", *(HEADINGS.get(name, name) for name in curves), "what happened")
    return TextTable(headings, rows, numbers=range(1 + len(curves)))


def _cell(name: str, value: float | None) -> str:
    if value is not None and name == "bytes":
        return readable_size(int(value))
    return cell(int(value) if value is not None and name == "clusters" else value)


def sparkline(values_R: Array, width: int) -> str:
    """Return a character for each value, or for the mean of neighbours if there are more than `width`.

    A value that is NaN is a space.
    """
    means = [_mean(part) for part in np.array_split(values_R, min(len(values_R), width))]
    measured = [value for value in means if value == value]
    if not measured:
        return ""
    low, high = min(measured), max(measured)
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(BARS[round((value - low) / step)] if value == value else " " for value in means)


def cluster_map(
    labels_RK: Array,
    truth_K: Array,
    round_R: Array,
    width: int,
    names: Mapping[int, str],
    client_K: Array | None = None,
) -> Iterator[Text]:
    """Yield the lines of a map: a line a client, by hidden group, and a block a round.

    With more than `MOST_CLIENTS` clients, or a single round: the last round, a line a hidden group. `names`
    is what the data set calls the groups, if it has any; `client_K` are the clients' numbers, from 0 on if
    they are not given.
    """
    groups = {int(group): names.get(int(group), str(group))[:LONGEST] for group in np.unique(truth_K)}
    longest = max(len("group"), *map(len, groups.values()))
    if len(truth_K) > MOST_CLIENTS or len(round_R) == 1:
        yield from _final(labels_RK[-1], truth_K, width, groups, longest)
        return
    room = width - longest - len(" client  ")
    places = _places(len(round_R), room)
    wide = 2 if 2 * len(places) <= room else 1
    yield Text(f"{'group':>{longest}} {'client':>6}  rounds {round_R[places[0]]} to {round_R[-1]}", "bold")
    before = None
    for client in np.argsort(truth_K, kind="stable"):
        group = int(truth_K[client])
        number = client if client_K is None else client_K[client]
        line = Text(f"{groups[group] if group != before else '':>{longest}} {number:>6}  ")
        for place in places:
            line.append_text(_block(int(labels_RK[place, client]), wide))
        before = group
        yield line


def _final(
    labels_K: Array, truth_K: Array, width: int, groups: Mapping[int, str], longest: int
) -> Iterator[Text]:
    yield Text(f"{'group':>{longest}}  clients by their cluster in the last round", "bold")
    room = width - longest - 2
    for group, name in groups.items():
        labels = np.sort(labels_K[truth_K == group])
        for first in range(0, len(labels), room):
            line = Text(f"{'' if first else name:>{longest}}  ")
            for label in labels[first : first + room]:
                line.append_text(_block(int(label), 1))
            yield line


def _places(num: int, width: int) -> Sequence[int]:
    """Return at most `width` of `num` indices, evenly spaced, the last one among them."""
    chosen = np.linspace(0, num - 1, min(num, max(1, width)))
    return [int(place) for place in np.round(chosen)]


def _block(label: int, wide: int) -> Text:
    mark = MARKS[label] if 0 <= label < len(MARKS) else OTHER
    colour = COLOURS[label % len(COLOURS)]
    return Text(mark * wide, f"color(16) on color({colour})")


def _mean(values: Array) -> float:
    measured = values[~np.isnan(values)]
    return float(measured.mean()) if len(measured) else float("nan")
