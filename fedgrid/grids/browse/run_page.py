"""Collect what is stored of a run for `fedgrid show RUN`, and print it with charts made of characters.

The charts are a sparkline and the map of clusters: each block of the map is a character that names its
cluster, black on the cluster's colour; in a file, which has no colours, the characters remain. Shapes: R
rounds, K clients.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from string import ascii_letters, digits
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.configuration.complete import DEFAULTS, complete_config
from fedgrid.engine.runtime.configuration.idle_settings import find_idle_settings
from fedgrid.engine.runtime.run.run_folder import LOG, build_folder_path
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.browse.grid_page import read_rows
from fedgrid.grids.display.plain_console import print_plain
from fedgrid.grids.display.tables import (
    PREDICTION_COLUMNS,
    RESULT_COLUMNS,
    format_cell,
    format_duration,
    format_size,
    select_columns,
)
from fedgrid.grids.display.text_table import TextTable, print_pairs
from fedgrid.grids.presets.axis_keys import AXES, SETTING_PREFIX, list_distinct_keys, read_axis_value
from fedgrid.grids.trackers.annotations import Annotations
from fedgrid.tracking.arrays import Array, last_number
from fedgrid.tracking.records import NoRecords, Records, RecordsError, read_records
from fedgrid.tracking.scoring.client_scores import UNDEFINED_REASONS, format_coverage
from fedgrid.tracking.scoring.run import NOTE, TAG
from fedgrid.tracking.scoring.scores import compute_curves, find_own_numbers
from fedgrid.tracking.scoring.selection import format_value

ROUNDS_SHOWN = 12
"""Number of rows of the table of rounds; rounds with an event come first, others fill up."""
LOG_LINES = 5
"""Most lines of a run's log that are shown; lines that only say that it started or finished do not count."""
CURVES = ("temperature", "clusters", "ari", "personalised_accuracy", "generalised_accuracy", "bytes")
"""Columns of the table of rounds, before numbers of the algorithm's own; R2 stands in place of accuracy where
numbers are predicted."""
BARS = "▁▂▃▄▅▆▇█"
MARKS = digits + ascii_letters
OTHER_MARK = "#"
"""Character of every cluster beyond the first `MARKS`."""
COLOURS = (25, 214, 36, 176, 74, 166, 220, 99, 65, 131, 244, 30)
"""Colours of clusters, numbers in a terminal's palette of 256; neighbours in the list differ clearly."""
MOST_CLIENT_LINES = 40
"""Most clients that get a line each in the map of clusters."""
LONGEST_GROUP_NAME = 20
"""Most letters of a group's name in the map of clusters."""
COLUMN_HEADINGS = {**RESULT_COLUMNS, **PREDICTION_COLUMNS}
HEADINGS = {
    "temperature": "temp.",
    "bytes": "sent so far",
    **{name: heading.replace("-\n", "").replace("\n", " ") for name, heading in COLUMN_HEADINGS.items()},
}
DRAWN_CURVES = ("temperature", "personalised_accuracy", "personalised_r2")
"""Curves that are drawn as sparklines; numbers of the algorithm's own are drawn too."""
SPARKLINE_WIDTH = 60
"""Most characters of a sparkline."""


def collect_run_facts(
    config: RunConfig, grids: Sequence[str], storage: Storage, data_dir: Path
) -> dict[str, Any]:
    """Collect what is stored of a run, finished or not, as values ready for JSON.

    Args:
        config: the run.
        grids: names of the grids that contain it.
        storage: where its folder is.
        data_dir: where data sets are; defaults of a user's own images depend on them.

    Raises:
        RunError: if the storage cannot be read.
    """
    # States are large, and no fact needs one.
    storage.pull(build_folder_path(storage.root, config).name, skip=("state-",))
    [row] = read_rows([config], storage)
    rounds, unread = _read_rounds(row.folder, config)
    return {
        "run": config.name,
        "run_id": config.run_id,
        "state": row.state,
        "cause": row.cause or unread,
        "grids": list(grids),
        "note": row.value(NOTE),
        "tags": {name.removeprefix(TAG): text for name, text in row.notes.items() if name != NOTE},
        "axes": {axis: read_axis_value(config, axis) for axis in AXES},
        "model": config.model,
        "changed": _find_changes(config, data_dir),
        "rounds": row.rounds,
        "stopped": row.stopped,
        **rounds,
        "scores": {name: row.scores.get(name) for name in select_columns(row.scores.keys())}
        if row.scores
        else None,
        "seconds": row.value("seconds"),
        "uncached_seconds": row.value("uncached_seconds"),
        "idle": list(find_idle_settings(config).values()),
        "notes": _read_log_notes(row.folder / LOG),
        "folder": f"{storage}/{row.folder.name}",
    }


def _find_changes(config: RunConfig, data_dir: Path) -> dict[str, Any] | None:
    """Find the settings that differ from their defaults, as key -> value and default.

    For a plugin's algorithm all settings are listed, without defaults, because showing a run must not execute
    a plugin. None if the user's own images are not on this machine: the defaults depend on them.
    """
    name = config.algorithm.name
    is_registered = name in ALGORITHMS
    plain = {axis: getattr(config, axis) for axis in AXES}
    try:
        usual = complete_config(
            plain | {"algorithm": name if is_registered else DEFAULTS["algorithm"]}, data_dir
        )
    except FedgridError:
        return None
    keys = [
        key
        for key in list_distinct_keys([config, usual])
        if key not in AXES and (is_registered or not key.startswith(SETTING_PREFIX))
    ]
    values = {key: (read_axis_value(config, key), read_axis_value(usual, key)) for key in keys}
    if not is_registered:
        settings = config.algorithm.settings
        values |= {
            f"{SETTING_PREFIX}{key}": (value, None) for key, value in settings.items() if value is not None
        }
    return {key: {"value": now, "default": then} for key, (now, then) in values.items() if now != then}


def _read_rounds(folder: Path, config: RunConfig) -> tuple[dict[str, Any], str | None]:
    """Read curves, events and partitions by round, and the reason if they cannot be read.

    The lists are empty before the first round, and for damaged records.
    """
    try:
        records = read_records(folder)
    except RecordsError as error:
        # A damaged file must not hide the rest of the page: state, settings and folder help to mend it.
        nothing: dict[str, Any] = {name: [] for name in ("round", "clients", "clusters", "hidden_groups")}
        nothing |= {name: {} for name in ("curves", "events", "group_names")}
        return nothing, None if isinstance(error, NoRecords) else str(error)
    scores = compute_curves(records)
    score = "r2" if "personalised_r2" in scores else "accuracy"
    names = [*(name.replace("accuracy", score) for name in CURVES), *find_own_numbers(scores)]
    rounds = {
        "round": records.round_R.tolist(),
        "curves": {name: _replace_nan(scores[name]) for name in names},
        "coverage": [
            line
            for score in UNDEFINED_REASONS
            if (
                line := format_coverage(
                    score, [(last_number(scores[f"{score}_clients"]), len(records.client_K))]
                )
            )
        ],
        "events": describe_events(records, config),
        "clients": records.client_K.tolist(),
        "clusters": records.clients["cluster"].astype(int).tolist(),
        "hidden_groups": records.truth_K.astype(int).tolist(),
        "group_names": {str(group): name for group, name in records.group_names.items()},
    }
    return rounds, None


def describe_events(records: Records, config: RunConfig) -> dict[int, str]:
    """Describe round -> what happened in it, for the rounds in which something did."""
    # All clients share one model, hence one cluster, before the first round.
    before, scheduled = 1, _describe_schedule(config)
    by_round: dict[int, str] = {}
    for place, number in enumerate(records.round_R.tolist()):
        clusters = len(np.unique(records.clients["cluster"][place]))
        words = scheduled.get(number, [])
        if clusters != before:
            words.append(f"{before} -> {clusters} clusters")
        elif records.rounds["clustered"][place] == 1:
            words.append("clusters again" if clusters > 1 else "looks for clusters, finds none")
        words += _format_count(records.rounds["warnings"][place], "warning")
        words += _format_count(records.rounds["excluded"][place], "unusable update")
        if words:
            by_round[number] = ", ".join(words)
        before = clusters
    return by_round


def _describe_schedule(config: RunConfig) -> dict[int, list[str]]:
    """Describe round -> which clients the configuration has join, and whose data move to another group."""
    by_round: dict[int, list[str]] = {}
    for number in sorted(set(config.joins.values())):
        joining = [client for client, at in config.joins.items() if at == number]
        one = f"client {joining[0]} joins"
        by_round[number] = [one if len(joining) == 1 else f"{len(joining)} clients join"]
    for number in sorted({move.round for move in config.drift.values()}):
        moving = [(client, move.to) for client, move in config.drift.items() if move.round == number]
        one = f"client {moving[0][0]} moves to group {moving[0][1]}"
        by_round.setdefault(number, []).append(one if len(moving) == 1 else f"{len(moving)} clients move")
    return by_round


def choose_rounds(round_R: Array, scheduled: Mapping[int, str]) -> list[int]:
    """Choose the rounds for a short table: the first, the last, those with an event, and some in between."""
    # Two rows are left for the first and the last round.
    eventful = [number for number in round_R.tolist() if number in scheduled][: ROUNDS_SHOWN - 2]
    spaced = np.linspace(0, len(round_R) - 1, min(len(round_R), ROUNDS_SHOWN - len(eventful)))
    return sorted({*(int(round_R[round(place)]) for place in spaced), *eventful})


def _format_count(number: float, what: str) -> list[str]:
    """Format a count with its noun in singular or plural, as a list; an empty list for zero."""
    return [f"{int(number)} {what}{'' if number == 1 else 's'}"] if number > 0 else []


def _replace_nan(values_R: Array) -> list[float | None]:
    """Replace values that are not finite by None, since JSON has no NaN."""
    return [float(value) if np.isfinite(value) else None for value in values_R]


def _read_log_notes(log: Path) -> list[str]:
    """Read the last lines of a run's log, without those that only say that it started or finished."""
    try:
        lines = log.read_bytes().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"the log is not shown: {error}"]
    informative = [line for line in lines if line and not line.endswith((" starts", " finished"))]
    return informative[-LOG_LINES:]


def print_run(facts: Mapping[str, Any], storage: Storage, console: Console) -> None:
    """Print the page of a run from the facts of `collect_run_facts`."""
    say = partial(print_plain, console)
    in_grids = f"; in {', '.join(facts['grids'])}" if facts["grids"] else ""
    say(f"{facts['run']}  ({facts['run_id']}{in_grids})")
    say(f"{facts['state']}: {facts['cause']}" if facts["cause"] else _describe_pace(facts))
    for text in Annotations(facts["note"] or "", facts["tags"]).format_lines():
        say(text)
    say()
    _print_settings(facts, console)
    if facts["round"]:
        say()
        _print_curves(facts, console)
        say()
        console.print(_build_rounds_table(facts))
        say()
        labels_RK, truth_K, client_K = (
            np.array(facts[key]) for key in ("clusters", "hidden_groups", "clients")
        )
        names = {int(group): name for group, name in facts["group_names"].items()}
        for line in draw_cluster_map(
            labels_RK, truth_K, np.array(facts["round"]), console.width, names, client_K
        ):
            console.print(line, soft_wrap=True)
    if facts["scores"]:
        say()
        scores = {COLUMN_HEADINGS[name]: format_cell(value) for name, value in facts["scores"].items()}
        console.print(TextTable(list(scores), [list(scores.values())], numbers=range(len(scores))))
        for sentence in facts.get("coverage", ()):
            say(sentence)
    for sentence in facts["idle"]:
        say(f"note: {sentence}")
    for note in facts["notes"]:
        say(f"log: {note}")
    say()
    more = {"Files:": facts["folder"]}
    if facts["grids"]:
        more["All runs beside it:"] = format_command(storage, "show", facts["grids"][0])
    print_pairs(console, more)


def _describe_pace(facts: Mapping[str, Any]) -> str:
    """Describe a run's state, its rounds and time, and its time without the round cache if that differs."""
    if facts["seconds"] is None:
        return str(facts["state"])
    length = facts["stopped"] or f"{facts['rounds']} rounds"
    time = f"{facts['state']}, {length} in {format_duration(facts['seconds'])}"
    # Both are rounded to a tenth of a second when shown; a smaller difference would print the same number
    # twice.
    if facts["uncached_seconds"] > facts["seconds"] + 0.05:
        return f"{time} ({format_duration(facts['uncached_seconds'])} without the round cache)"
    return time


def _print_settings(facts: Mapping[str, Any], console: Console) -> None:
    """Print the model and the settings that differ from their defaults."""
    changed = facts["changed"]
    if changed is None:
        line = "Its images are not on this machine, so defaults are unknown; config.json has all settings."
    elif changed:
        line = f"Model {facts['model']}. Differs from the defaults in:"
    else:
        line = f"Model {facts['model']}; all settings have their defaults."
    print_plain(console, line)
    values = {
        key: format_value(one["value"])
        + (f"  (default {format_value(one['default'])})" if one["default"] is not None else "")
        for key, one in (changed or {}).items()
    }
    print_pairs(console, values, "  ")


def _print_curves(facts: Mapping[str, Any], console: Console) -> None:
    """Print a sparkline with the first, last, least and greatest value of each drawn curve."""
    for name in (name for name in facts["curves"] if name in DRAWN_CURVES or name not in HEADINGS):
        values_R = np.array([np.nan if value is None else value for value in facts["curves"][name]])
        measured = values_R[~np.isnan(values_R)]
        if len(measured):
            heading = HEADINGS.get(name, name)
            sparkline = draw_sparkline(values_R, SPARKLINE_WIDTH)
            line = f"{heading:<10} {measured[0]:.3f} {sparkline} {measured[-1]:.3f}"
            print_plain(console, f"{line}   from {measured.min():.3f} to {measured.max():.3f}")


def _build_rounds_table(facts: Mapping[str, Any]) -> TextTable:
    """Build the table of chosen rounds: numbers of the curves, and what happened."""
    places = {number: place for place, number in enumerate(facts["round"])}
    rows, curves = [], facts["curves"]
    for number in choose_rounds(np.array(facts["round"]), facts["events"]):
        cells = [_format_cell(name, values[places[number]]) for name, values in curves.items()]
        rows.append([str(number), *cells, facts["events"].get(number, "")])
    headings = ("round", *(HEADINGS.get(name, name) for name in curves), "what happened")
    return TextTable(headings, rows, numbers=range(1 + len(curves)))


def _format_cell(name: str, value: float | None) -> str:
    """Format a number of the table of rounds: bytes with a unit, clusters without decimals."""
    if value is not None and name == "bytes":
        return format_size(int(value))
    return format_cell(int(value) if value is not None and name == "clusters" else value)


def draw_sparkline(values_R: Array, width: int) -> str:
    """Draw a curve as characters of eight heights.

    One character for each value, or for the mean of neighbours if there are more than `width`. The least
    value is lowest, the greatest highest; NaN is a space.
    """
    means = [_average_measured(part) for part in np.array_split(values_R, min(len(values_R), width))]
    measured = [value for value in means if value == value]
    if not measured:
        return ""
    low, high = min(measured), max(measured)
    # A constant curve has no range to divide by: all its characters are the lowest.
    step = (high - low) / (len(BARS) - 1) or 1.0
    return "".join(BARS[round((value - low) / step)] if value == value else " " for value in means)


def draw_cluster_map(
    labels_RK: Array,
    truth_K: Array,
    round_R: Array,
    width: int,
    names: Mapping[int, str],
    client_K: Array | None = None,
) -> Iterator[Text]:
    """Draw the partitions of a run: a line for each client, by hidden group, and a block for each round.

    With more than `MOST_CLIENT_LINES` clients, or a single round, draw only the last round, with a line for
    each hidden group.

    Args:
        labels_RK: cluster of each client in each round, shape (R, K).
        truth_K: hidden group of each client, shape (K,).
        round_R: numbers of the rounds, shape (R,).
        width: width of the terminal in characters.
        names: hidden group -> name, if the data set names its groups.
        client_K: numbers of the clients, shape (K,); default None: 0 to K - 1.

    Yields:
        The lines, with colours.
    """
    groups = {
        int(group): names.get(int(group), str(group))[:LONGEST_GROUP_NAME] for group in np.unique(truth_K)
    }
    longest = max(len("group"), *map(len, groups.values()))
    if len(truth_K) > MOST_CLIENT_LINES or len(round_R) == 1:
        yield from _draw_last_round(labels_RK[-1], truth_K, width, groups, longest)
        return
    room = width - longest - len(" client  ")
    places = _spread_places(len(round_R), room)
    # Two characters make a block about square.
    block_width = 2 if 2 * len(places) <= room else 1
    yield Text(f"{'group':>{longest}} {'client':>6}  rounds {round_R[places[0]]} to {round_R[-1]}", "bold")
    before = None
    for client in np.argsort(truth_K, kind="stable"):
        group = int(truth_K[client])
        number = client if client_K is None else client_K[client]
        line = Text(f"{groups[group] if group != before else '':>{longest}} {number:>6}  ")
        for place in places:
            line.append_text(_draw_block(int(labels_RK[place, client]), block_width))
        before = group
        yield line


def _draw_last_round(
    labels_K: Array, truth_K: Array, width: int, groups: Mapping[int, str], longest: int
) -> Iterator[Text]:
    """Draw the partition of the last round: a line for each hidden group, a block for each of its clients."""
    yield Text(f"{'group':>{longest}}  clients by their cluster in the last round", "bold")
    room = width - longest - 2
    for group, name in groups.items():
        # Sorted, so that a group split into two clusters shows as two runs of colour.
        labels = np.sort(labels_K[truth_K == group])
        for first in range(0, len(labels), room):
            line = Text(f"{'' if first else name:>{longest}}  ")
            for label in labels[first : first + room]:
                line.append_text(_draw_block(int(label), 1))
            yield line


def _spread_places(num: int, width: int) -> Sequence[int]:
    """Choose at most `width` of `num` indices, evenly spaced, the last one among them."""
    chosen = np.linspace(0, num - 1, min(num, max(1, width)))
    return [int(place) for place in np.round(chosen)]


def _draw_block(label: int, width: int) -> Text:
    """Draw one block of the map: the cluster's character on its colour."""
    mark = MARKS[label] if 0 <= label < len(MARKS) else OTHER_MARK
    colour = COLOURS[label % len(COLOURS)]
    return Text(mark * width, f"color(16) on color({colour})")


def _average_measured(values: Array) -> float:
    """Compute the mean of the values that are not NaN; NaN if there are none."""
    measured = values[~np.isnan(values)]
    return float(measured.mean()) if len(measured) else float("nan")
