"""What `fedgrid show RUN` says of a run, as plain values: settings, rounds, scores, warnings, files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import FedgridError
from fedgrid.engine.runtime.configuration.complete import DEFAULTS, complete
from fedgrid.engine.runtime.configuration.idle_settings import idle_settings
from fedgrid.engine.runtime.run.run_folder import LOG, folder_of
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.browse.columns import read_rows
from fedgrid.grids.presets.axis_keys import AXES, SETTING, axis_keys, value_of
from fedgrid.grids.results.result_columns import columns_for
from fedgrid.tracking.arrays import Array, last
from fedgrid.tracking.records import NoRecords, Records, RecordsError, read_records
from fedgrid.tracking.scoring.client_scores import UNDEFINED, coverage_line
from fedgrid.tracking.scoring.run import NOTE, TAG
from fedgrid.tracking.scoring.scores import curves, own_numbers

ROUNDS_SHOWN = 12
"""Rows of the table of rounds, if this many tell all that happened."""
LOG_LINES = 5
"""Lines of a run's log at most, beside those that say that it started and ended."""
CURVES = ("temperature", "clusters", "ari", "personalised_accuracy", "generalised_accuracy", "bytes")
"""Columns of the table of rounds, before numbers of the algorithm's own; R2 stands in place of accuracy where
numbers are predicted."""


def facts_of(config: RunConfig, grids: Sequence[str], storage: Storage, data_dir: Path) -> dict[str, Any]:
    """Return what is known of a run, finished or not, ready for JSON.

    Raises:
        RunError: if the storage cannot be read.
    """
    storage.pull(folder_of(storage.root, config).name, skip=("state-",))
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
        "axes": {axis: value_of(config, axis) for axis in AXES},
        "model": config.model,
        "changed": _find_changes(config, data_dir),
        "rounds": row.rounds,
        "stopped": row.stopped,
        **rounds,
        "scores": {name: row.scores.get(name) for name in columns_for(row.scores.keys())}
        if row.scores
        else None,
        "seconds": row.value("seconds"),
        "uncached_seconds": row.value("uncached_seconds"),
        "idle": list(idle_settings(config).values()),
        "notes": _notes(row.folder / LOG),
        "folder": f"{storage}/{row.folder.name}",
    }


def _find_changes(config: RunConfig, data_dir: Path) -> dict[str, Any] | None:
    """Return key -> value and default of the settings that differ from the defaults.

    Of a plugin's algorithm all settings, without defaults: to show a run executes no plugin. None if the
    user's own images are not at hand.
    """
    name = config.algorithm.name
    is_known = name in ALGORITHMS
    plain = {axis: getattr(config, axis) for axis in AXES}
    try:
        usual = complete(plain | {"algorithm": name if is_known else DEFAULTS["algorithm"]}, data_dir)
    except FedgridError:
        return None
    keys = [key for key in axis_keys() if key not in AXES and (is_known or not key.startswith(SETTING))]
    values = {key: (value_of(config, key), value_of(usual, key)) for key in keys}
    if not is_known:
        settings = config.algorithm.settings
        values |= {f"{SETTING}{key}": (value, None) for key, value in settings.items() if value is not None}
    return {key: {"value": now, "default": then} for key, (now, then) in values.items() if now != then}


def _read_rounds(folder: Path, config: RunConfig) -> tuple[dict[str, Any], str | None]:
    """Return curves, events and partitions by round, and why they are not read.

    Lists are empty before the first round, and of damaged records.
    """
    try:
        records = read_records(folder)
    except RecordsError as error:
        nothing: dict[str, Any] = {name: [] for name in ("round", "clients", "clusters", "hidden_groups")}
        nothing |= {name: {} for name in ("curves", "events", "group_names")}
        return nothing, None if isinstance(error, NoRecords) else str(error)
    scores = curves(records)
    score = "r2" if "personalised_r2" in scores else "accuracy"
    names = [*(name.replace("accuracy", score) for name in CURVES), *own_numbers(scores)]
    rounds = {
        "round": records.round_R.tolist(),
        "curves": {name: _numbers(scores[name]) for name in names},
        "coverage": [
            line
            for score in UNDEFINED
            if (line := coverage_line(score, [(last(scores[f"{score}_clients"]), len(records.client_K))]))
        ],
        "events": events(records, config),
        "clients": records.client_K.tolist(),
        "clusters": records.clients["cluster"].astype(int).tolist(),
        "hidden_groups": records.truth_K.astype(int).tolist(),
        "group_names": {str(group): name for group, name in records.group_names.items()},
    }
    return rounds, None


def events(records: Records, config: RunConfig) -> dict[int, str]:
    """Return round -> what happened in it, of the rounds in which something did."""
    before, scheduled = 1, _schedule(config)
    by_round: dict[int, str] = {}
    for place, number in enumerate(records.round_R.tolist()):
        clusters = len(np.unique(records.clients["cluster"][place]))
        words = scheduled.get(number, [])
        if clusters != before:
            words.append(f"{before} -> {clusters} clusters")
        elif records.rounds["clustered"][place] == 1:
            words.append("clusters again" if clusters > 1 else "looks for clusters, finds none")
        words += _count(records.rounds["warnings"][place], "warning")
        words += _count(records.rounds["excluded"][place], "unusable update")
        if words:
            by_round[number] = ", ".join(words)
        before = clusters
    return by_round


def _schedule(config: RunConfig) -> dict[int, list[str]]:
    """Return round -> which clients the configuration has join in it, and whose data change."""
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
    """Return the numbers of the rounds for a short table: first, last, eventful, some between."""
    eventful = [number for number in round_R.tolist() if number in scheduled][: ROUNDS_SHOWN - 2]
    spaced = np.linspace(0, len(round_R) - 1, min(len(round_R), ROUNDS_SHOWN - len(eventful)))
    return sorted({*(int(round_R[round(place)]) for place in spaced), *eventful})


def _count(number: float, what: str) -> list[str]:
    return [f"{int(number)} {what}{'' if number == 1 else 's'}"] if number > 0 else []


def _numbers(values_R: Array) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values_R]


def _notes(log: Path) -> list[str]:
    """Return the last lines of a run's log that say more than that it started or ended."""
    try:
        lines = log.read_bytes().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        return [f"the log is not shown: {error}"]
    telling = [line for line in lines if line and not line.endswith((" starts", " finished"))]
    return telling[-LOG_LINES:]
