"""A run as tables know it, the result of a finished one, and which runs have given values."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.records import Records, RecordsError, read_records, table
from fedgrid.tracking.scoring.partitions import Clustering, PublishedClustering
from fedgrid.tracking.scoring.scores import curves

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


@dataclass(frozen=True)
class Run:
    """A run, as known from its configuration."""

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


def plain_title(title: str) -> str:
    """Return what the papers' tables call an algorithm, or the one that it is "as published"."""
    return title.removesuffix(f" {AS_PUBLISHED}")


@dataclass(frozen=True)
class RunResult:
    """A finished run: its scores, curves and partitions, a few kilobytes, and its tables on disk."""

    run: Run
    scores: Mapping[str, Any]
    """The final scores by name, as `ari` and `personalised_accuracy`, None for one that is not defined:
    `tracking.scoring.scores.of_run`, which `scores.json` in the run's folder keeps."""
    round_R: Array
    curves: Mapping[str, Array]
    """Name -> score of each round, shape (R,), NaN in rounds without it: `tracking.scoring.scores.curves`.
    A name that is no score's is a `KeyError`."""
    labels_RK: Array
    truth_K: Array
    """The hidden groups of round 1."""

    @property
    def folder(self) -> Path:
        """Its records, log and last two states."""
        return self.run.folder

    @property
    def config(self) -> dict[str, Any]:
        """Its configuration, as `fedgrid.run` takes it."""
        values: dict[str, Any] = json.loads((self.folder / "config.json").read_bytes())
        return {key: value for key, value in values.items() if key not in NOT_SETTABLE}

    @property
    def rounds(self) -> pa.Table:
        """The table with a row a round; `.to_pandas()` where pandas is installed."""
        return table(self.folder, "rounds")

    @property
    def clients(self) -> pa.Table:
        """The table with a row a round and client."""
        return table(self.folder, "clients")

    @property
    def records(self) -> Records:
        """The records as arrays, as `figures.temperature` and `figures.cluster_map` take them."""
        return read_records(self.folder)

    @property
    def clustering(self) -> Clustering:
        """When it has found its partition."""
        return Clustering(**self._part(Clustering))

    @property
    def published(self) -> PublishedClustering:
        """Its row of the published Tables 1 and 2."""
        return PublishedClustering(**self._part(PublishedClustering))

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

    def _part(self, kind: type[Clustering | PublishedClustering]) -> dict[str, Any]:
        return {each.name: self.scores[each.name] for each in fields(kind)}

    def _measured(self, curve: str) -> Array:
        values_R = self.curves[curve]
        return np.asarray(values_R[~np.isnan(values_R)])


def read_result(run: Run, scores: Mapping[str, Any]) -> RunResult:
    """Return the result of a finished run with these final scores; the rest is computed from its records.

    Raises:
        RecordsError: there are no records, or they are not of all of its rounds and clients.
    """
    found = read_records(run.folder)
    shape, expected = found.clients["cluster"].shape, (run.rounds, run.clients)
    if shape != expected:
        raise RecordsError(
            "the records in {} are of {} rounds and {} clients, not {} and {}; run it again".format(
                run.folder, *shape, *expected
            )
        )
    return RunResult(run, scores, found.round_R, curves(found), found.clients["cluster"], found.truth_K)


FIELDS = {
    each.name: (each.name,) for each in fields(Run) if each.name not in ("axes", "keys", "idle", "folder")
} | {
    "algorithm": ("algorithm", "method", "published"),
    "split": ("split", "split_in_words"),
    "setting": ("setting",),
    "scenario": ("scenario",),
}
"""Keyword -> the attributes of a run that it may stand for, beside a key of its configuration."""


def matching(runs: Sequence[Run], wanted: Mapping[str, Any]) -> list[Run]:
    """Return the runs that have all of these values, as `Study.where`.

    Raises:
        ValueError: there is no such keyword, or no run has such a value.
    """
    found = list(runs)
    for keyword, value in wanted.items():
        choices = list(value) if isinstance(value, list | set | frozenset | range) else [value]
        key = key_of(runs, keyword)
        there = {run.run_id: _values(run, keyword, key) for run in runs}
        for choice in choices:
            if runs and not any(_is_among(choice, values) for values in there.values()):
                ids = _texts(values[:1] for values in there.values())
                raise ValueError(
                    _unknown(f"no run has {keyword}={choice!r}", str(choice), ids, _texts(there.values()))
                )
        found = [run for run in found if any(_is_among(choice, there[run.run_id]) for choice in choices)]
    return found


def key_of(runs: Sequence[Run], keyword: str) -> str | None:
    """Return the key of a configuration that a keyword names, None if it names a field of `Run` only.

    A keyword is a key, or its last part where no other key ends so.

    Raises:
        ValueError: it names neither, or several keys.
    """
    keys = dict.fromkeys(key for run in runs for key in run.keys)
    if keyword in keys:
        return keyword
    if keyword in FIELDS or not runs:
        return None
    ending = [key for key in keys if key.endswith(f".{keyword}")]
    if len(ending) == 1:
        return ending[0]
    if ending:
        raise ValueError(
            f"where: '{keyword}' is any of {', '.join(ending)}: give one as **{{'{ending[0]}': ...}}"
        )
    raise ValueError(_unknown(f"where: unknown keyword '{keyword}'", keyword, [*FIELDS, *keys]))


def _values(run: Run, keyword: str, key: str | None) -> list[Any]:
    """Return what a run has under a keyword, first what a configuration calls it."""
    of_key = [run.keys[key]] if key is not None and key in run.keys else []
    return [*of_key, *(getattr(run, name) for name in FIELDS.get(keyword, ()))]


def _is_among(wanted: object, values: Collection[Any]) -> bool:
    return any(wanted == value or _text(wanted) == _text(value) for value in values)


def _text(value: object) -> str:
    """Return a value as text, the same for the same number: 5, 5.0 and "5" are one."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        return f"{float(str(value)):.12g}"
    except ValueError:
        return str(value)


def _texts(there: Iterable[Sequence[Any]]) -> list[str]:
    return [str(value) for values in there for value in values if value is not None]


def _unknown(what: str, name: str, allowed: Sequence[str], synonyms: Sequence[str] = ()) -> str:
    names = list(dict.fromkeys(allowed))
    near = get_close_matches(name, list(dict.fromkeys([*names, *synonyms])), 1)
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"{what}; {f'did you mean {near[0]!r}? ' if near else ''}there are {shown}"
