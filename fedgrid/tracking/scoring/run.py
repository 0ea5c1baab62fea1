"""A run as tables know it, with its result if it is finished, and which runs have given values."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from fedgrid.regular_files import read_file
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.records import Records, RecordsError, read_records, table
from fedgrid.tracking.scoring.scores import curves
from fedgrid.tracking.scoring.selection import Condition

AS_PUBLISHED = "as published"
"""Ends the names of algorithms and scores that share a paper's mistakes."""

AxisValue: TypeAlias = tuple[str, str]
"""A further axis of a grid and its value: `("split.majority", "0.5")`."""
Scenario: TypeAlias = tuple[str, int, str, *tuple[AxisValue, ...]]
"""Data set, clients, split, then the setting."""
SETTING_OF_ALGORITHM = "algorithm."
"""Axes that begin like this are settings of an algorithm; they belong to no scenario."""
NOT_SETTABLE = ("format", "plugin_digests")
"""Keys of `config.json` that are no settings."""


def _nothing() -> Array:
    return np.empty(0)


@dataclass(frozen=True)
class Run:
    """A run as known from its configuration, and its result if it is finished: a few kilobytes."""

    run_id: str
    name: str
    folder: Path
    dataset: str
    split: str
    clients: int
    algorithm: str
    """Its name in tables, unique among the runs of one scenario and seed: `OCFL-HDB`, `SCL as published`."""
    published: str | None
    """The row of the published tables to compare it with: `OCFL-HDB`, `SCL`; None if there is none."""
    seed: int
    rounds: int
    """Number of rounds when it is finished."""
    method: str = ""
    """The algorithm's title without settings: `SCL` of `SCL (cooldown 5)`."""
    axes: tuple[AxisValue, ...] = ()
    """The run's values of the grid's axes beside data set, split, clients, seed and algorithm."""
    is_archived: bool = False
    """Whether it is one of the published runs themselves, read from the authors' archive."""
    is_reference: bool = False
    """Whether its algorithm is a row to compare with and no competitor: never the best, not ranked."""
    model_bytes: int | None = None
    """Size of a model as it is sent, four bytes an entry, buffers included; None if it was not asked for."""
    keys: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The run's value of every key that can be an axis, whether or not the grid has it as one."""
    idle: frozenset[str] = field(default=frozenset(), compare=False)
    """Those keys that have no effect on this run's kind of split: they are in no table's heading."""
    lacking: str = field(default="", compare=False)
    """Why it has no result: `30 of 50 rounds`, `not started`, `failed: ...`; empty of a finished run."""
    scores: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The final scores by name, as `ari` and `personalised_accuracy`, None for one that is not defined:
    `tracking.scoring.scores.of_run`, which `scores.json` in the run's folder keeps."""
    round_R: Array = field(default_factory=_nothing, compare=False)
    """Of a finished run, like all below; none otherwise."""
    curves: Mapping[str, Array] = field(default_factory=dict, compare=False)
    """Name -> score of each round, shape (R,), NaN in rounds without it: `tracking.scoring.scores.curves`.
    A name that is no score's is a `KeyError`."""
    labels_RK: Array = field(default_factory=_nothing, compare=False)
    truth_K: Array = field(default_factory=_nothing, compare=False)
    """The hidden groups of round 1."""

    @property
    def is_finished(self) -> bool:
        """Whether it has a result."""
        return len(self.round_R) > 0

    @property
    def is_as_published(self) -> bool:
        """Whether its algorithm is one with a paper's mistakes."""
        return AS_PUBLISHED in self.algorithm

    @property
    def setting(self) -> tuple[AxisValue, ...]:
        """The axes that are no settings of the algorithm: what algorithms are compared within."""
        return tuple(pair for pair in self.axes if not pair[0].startswith(SETTING_OF_ALGORITHM))

    @property
    def block(self) -> tuple[str, int]:
        """Data set and number of clients: the papers have one table for each."""
        return self.dataset, self.clients

    @property
    def split_in_words(self) -> str:
        """The split as headings have it: `overlapping balanced`."""
        return self.split.replace("-", " ")

    @property
    def scenario(self) -> Scenario:
        """What runs of one seed have in common that differ in their algorithm only."""
        return (self.dataset, self.clients, self.split, *self.setting)

    @property
    def config(self) -> dict[str, Any]:
        """Its configuration, as `fedgrid.run` takes it."""
        values: dict[str, Any] = json.loads(read_file(self.folder / "config.json"))
        return {key: value for key, value in values.items() if key not in NOT_SETTABLE}

    def table(self, name: str) -> pa.Table:
        """Return a table of its records: `rounds` (a row a round), `clients` (a row a round and client)."""
        return table(self.folder, name)

    @property
    def records(self) -> Records:
        """The records as arrays, as `figures.temperature` and `figures.cluster_map` take them."""
        return read_records(self.folder)

    def mean(self, curve: str, *, last: int = 0) -> float:
        """Return the mean over the rounds that have a value, NaN if none has.

        With `last`, over that many last rounds; the last value if none of them has one.
        """
        if last and not np.isnan(self.curves[curve][-last:]).all():
            return float(np.nanmean(self.curves[curve][-last:]))
        measured = self._measured(curve)[-1 if last else 0 :]
        return float(measured.mean()) if len(measured) else float("nan")

    def last(self, curve: str) -> float:
        """Return the value of the last round that has one, NaN if none has."""
        measured = self._measured(curve)
        return float(measured[-1]) if len(measured) else float("nan")

    def _measured(self, curve: str) -> Array:
        values_R = self.curves[curve]
        return np.asarray(values_R[~np.isnan(values_R)])


def plain_title(title: str) -> str:
    """Return what the papers' tables call an algorithm, or the one that it is "as published"."""
    return title.removesuffix(f" {AS_PUBLISHED}")


def load_result(run: Run, scores: Mapping[str, Any]) -> Run:
    """Return a run with its result: these final scores, and what is computed from its records.

    Raises:
        RecordsError: there are no records, or they are not of all of its rounds and clients.
    """
    records = read_records(run.folder)
    shape, expected = records.clients["cluster"].shape, (run.rounds, run.clients)
    if shape != expected:
        raise RecordsError(
            "the records in {} are of {} rounds and {} clients, not {} and {}; run it again".format(
                run.folder, *shape, *expected
            )
        )
    return replace(
        run,
        scores=scores,
        round_R=records.round_R,
        curves=curves(records),
        labels_RK=records.clients["cluster"],
        truth_K=records.truth_K,
    )


AXES = ("dataset", "clients", "split", "algorithm", "seed")
"""Axes that every grid has; a user may name them in the plural."""
SYNONYMS = {
    "algorithm": ("algorithm", "method", "published"),
    "split": ("split", "split_in_words"),
    **{
        name: (name,)
        for name in ("run_id", "name", "dataset", "clients", "published", "seed", "rounds", "method")
    },
    **{name: (name,) for name in ("is_archived", "is_reference", "model_bytes", "setting", "scenario")},
}
"""Column -> the attributes of a run that it may stand for, beside a key of its configuration."""


def find_axis(runs: Sequence[Run], name: str, *, others: Collection[str] = ()) -> str:
    """Return the axis that a word names: of `AXES`, a key of a run, of `others`, the last part of a key.

    Raises:
        ValueError: there is no such axis, or several end so.
    """
    keys = dict.fromkeys(key for run in runs for key in (*dict(run.axes), *run.keys))
    for word in (name, name.removesuffix("s")):
        if word in AXES or word in keys or word in others:
            return word
    ending = [key for key in keys if key.endswith(f".{name}")]
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise ValueError(f"'{name}' is any of {', '.join(ending)}: name one of these")
    near = get_close_matches(name, [*AXES, *others, *keys], 1)
    axes = dict.fromkeys(key for run in runs for key, _ in run.axes)
    raise ValueError(
        f"no axis '{name}'; {f'did you mean {near[0]!r}? ' if near else ''}"
        f"there are {', '.join((*AXES, *axes))}, and any key of a run"
    )


def select(runs: Sequence[Run], conditions: Iterable[Condition]) -> list[Run]:
    """Return the runs that meet all conditions.

    Raises:
        ValueError: there is no such column, or no run has a value that is asked for.
    """
    chosen = list(runs)
    others = tuple(dict.fromkeys((*SYNONYMS, *(name for run in runs for name in run.scores))))
    for condition in conditions if runs else ():
        column = find_axis(runs, condition.column, others=others)
        there = {run.run_id: values_on(run, column) for run in runs}
        for value in condition.values if condition.operator == "=" else ():
            if not any(replace(condition, values=(value,)).holds(values) for values in there.values()):
                raise ValueError(_no_run_has(condition.column, value, [*there.values()]))
        chosen = [run for run in chosen if condition.holds(there[run.run_id])]
    return chosen


def values_on(run: Run, column: str) -> list[Any]:
    """Return what a run has on an axis or another column, first what a configuration calls it."""
    keys = {**run.scores, **run.keys, **dict(run.axes)}
    of_key = [keys[column]] if column in keys else []
    return [*of_key, *(getattr(run, name) for name in SYNONYMS.get(column, ()))]


def _no_run_has(column: str, value: object, there: Sequence[Sequence[Any]]) -> str:
    ids = list(dict.fromkeys(str(one) for values in there for one in values[:1] if one is not None))
    every = dict.fromkeys([*ids, *(str(one) for values in there for one in values if one is not None)])
    near = get_close_matches(str(value), list(every), 1)
    shown = ", ".join(ids[:20]) + (", ..." if len(ids) > 20 else "")
    return f"no run has {column}={value!r}; {f'did you mean {near[0]!r}? ' if near else ''}there are {shown}"
