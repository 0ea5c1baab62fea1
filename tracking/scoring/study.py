"""A study is the runs of a grid and their results: tables, figures and reports are functions of it.

Shapes: R rounds, K clients.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from fedgrid.tracking import records
from fedgrid.tracking.records import Array
from fedgrid.tracking.scoring.frames import frame, html
from fedgrid.tracking.scoring.partitions import (
    Clustering,
    PublishedClustering,
    clustering,
    published_clustering,
)
from fedgrid.tracking.scoring.scores import curves

if TYPE_CHECKING:
    from pandas import DataFrame

SPLITS = (
    "nonoverlapping-balanced",
    "nonoverlapping-imbalanced",
    "overlapping-balanced",
    "overlapping-imbalanced",
)
"""The splits of the papers, in the order of their tables."""

AS_PUBLISHED = "as published"
"""Ends the names of algorithms and scores that share a paper's mistakes."""

T = TypeVar("T")

AxisValue: TypeAlias = tuple[str, str]
"""A further axis of a grid and its value: `("split.majority", "0.5")`."""
Scenario: TypeAlias = tuple[str, int, str, *tuple[AxisValue, ...]]
"""Data set, clients, split, then the setting."""
SETTING_OF_ALGORITHM = "algorithm."
"""Axes that begin like this are settings of an algorithm; they belong to no scenario."""


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
    def scenario(self) -> Scenario:
        """What runs of one seed have in common that differ in their algorithm only."""
        return (self.dataset, self.clients, self.split, *self.setting)


@dataclass(frozen=True)
class Result:
    """The scores and partitions of one finished run, a few kilobytes."""

    run: Run
    clustering: Clustering
    published: PublishedClustering
    round_R: Array
    curves: Mapping[str, Array]
    """Name -> score of each round, shape (R,), NaN in rounds without it: `tracking.scoring.scores.curves`."""
    labels_RK: Array
    truth_K: Array
    """The hidden groups of round 1."""

    def mean(self, curve: str, *, last: int = 0) -> float:
        """Return the mean over the rounds that have a value, NaN if none has.

        With `last`, those of the last so many rounds, or the last value if none of them has one.
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


@dataclass(frozen=True)
class Study:
    """The runs of a grid in its order, and the results of the finished runs."""

    name: str
    runs: tuple[Run, ...]
    results: Mapping[str, Result]
    """By run id."""
    lacking: Mapping[str, str]
    """Run id -> state of a run without a result: `30 of 50 rounds`, `not started`, `failed: ...`."""
    notes: tuple[str, ...] = ()
    """What a reader must know of the runs, as that some went on with other code."""

    def to_pandas(self, *, by_round: bool = False) -> "DataFrame":
        """Return a frame with a row for each finished run and the last value of each score.

        With `by_round` it has a row for each round, and the scores of that round, NaN where there is none.
        The columns are what identifies the run, the grid's further axes, then the scores as in
        `Result.curves`. A run's row also has `clustering_round`, `last_change_round` and `exactly_right`.
        """
        return frame(self.finished, by_round=by_round)

    def _repr_html_(self) -> str:
        """Return a table of the runs, for a cell of a notebook."""
        return html(self.name, len(self.runs), self.finished)

    def where(self, **wanted: Any) -> "Study":
        """Return the study of the runs that are all of this, by any of a `Run`'s names: `dataset="mnist"`."""
        return self.only(run for run in self.runs if all(getattr(run, key) == wanted[key] for key in wanted))

    def only(self, runs: Iterable[Run]) -> "Study":
        """Return the study of these of its runs."""
        chosen = {run.run_id: run for run in runs}
        return replace(
            self,
            runs=tuple(chosen.values()),
            results={run_id: self.results[run_id] for run_id in chosen if run_id in self.results},
            lacking={run_id: self.lacking[run_id] for run_id in chosen if run_id in self.lacking},
        )

    @property
    def finished(self) -> tuple[Result, ...]:
        """The results of the finished runs, in the order of the runs."""
        return tuple(self.results[run.run_id] for run in self.runs if run.run_id in self.results)

    @property
    def unfinished(self) -> tuple[Run, ...]:
        """The runs without a result."""
        return tuple(run for run in self.runs if run.run_id not in self.results)

    @property
    def datasets(self) -> tuple[str, ...]:
        """In the order of the runs, like all properties below."""
        return _distinct(run.dataset for run in self.runs)

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """Pairs of data set and number of clients; those of a data set are adjacent, fewer clients first."""
        sizes = {
            dataset: sorted({r.clients for r in self.runs if r.dataset == dataset})
            for dataset in self.datasets
        }
        return tuple((dataset, clients) for dataset in self.datasets for clients in sizes[dataset])

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of the runs: those of `SPLITS` first, then others."""
        there = _distinct(run.split for run in self.runs)
        return _distinct(split for split in (*SPLITS, *there) if split in there)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Their names in tables; the references come last."""
        return _distinct(run.algorithm for run in sorted(self.runs, key=lambda run: run.is_reference))

    @property
    def references(self) -> tuple[str, ...]:
        """Those of the algorithms that are no competitors."""
        return _distinct(run.algorithm for run in self.runs if run.is_reference)

    @property
    def is_archived(self) -> bool:
        """Whether the runs are the published ones themselves; a grid has either these or runs of its own."""
        return any(run.is_archived for run in self.runs)

    @property
    def reference_note(self) -> str:
        """A sentence on the references, empty if there are none."""
        names = " and ".join(self.references)
        verb = "is" if len(self.references) == 1 else "are"
        return f"{names} {verb} for reference: not ranked, not tested, never in bold." if names else ""

    @property
    def competitors(self) -> "Study":
        """The study without the references."""
        return self.only(run for run in self.runs if not run.is_reference)

    @property
    def settings(self) -> tuple[tuple[AxisValue, ...], ...]:
        """Combinations of the further axes' values; one, which is empty, of a grid without such axes."""
        return _distinct(run.setting for run in self.runs)

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """By data set, number of clients, split and setting."""
        there = {run.scenario for run in self.runs}
        whole = product(self.blocks, self.splits, self.settings)
        scenarios = ((*block, split, *setting) for block, split, setting in whole)
        return tuple(scenario for scenario in scenarios if scenario in there)

    def cells(self) -> Mapping[tuple[Scenario, str], "Study"]:
        """Return (scenario, algorithm) -> the study of its runs, which differ in their seeds only."""
        groups: dict[tuple[Scenario, str], list[Run]] = {}
        for run in self.runs:
            groups.setdefault((run.scenario, run.algorithm), []).append(run)
        return {key: self.only(runs) for key, runs in groups.items()}


def read_result(run: Run) -> Result:
    """Return the result of a run, computed from its records.

    Raises:
        RecordsError: if there are no records.
    """
    found = records.read_records(run.folder)
    labels_RK, truth_RK = found.clients["cluster"], found.clients["true_cluster"]
    return Result(
        run,
        clustering(labels_RK, truth_RK, found.rounds["clustered"]),
        published_clustering(labels_RK, truth_RK, run.published),
        found.round_R,
        curves(found),
        labels_RK,
        found.truth_K,
    )


def require_one(study: Study, *parts: str) -> None:
    """Check that the runs of a study agree in some of `dataset`, `clients` and `split`, and in `setting`.

    Raises:
        ValueError: if they do not.
    """
    for part in (*parts, "setting"):
        values = _distinct(getattr(run, part) for run in study.runs)
        if len(values) > 1:
            raise ValueError(
                f"{study.name} has several values of {part} ({', '.join(map(str, values))}), expected one: "
                f"choose with study.where({part}={values[0]!r})"
            )


def plain(name: str) -> str:
    """Return a name with only those characters that file names and anchors may have."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", name)


def slug(name: str) -> str:
    """Return a name in lower case, with hyphens for all but letters and digits: part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _distinct(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
