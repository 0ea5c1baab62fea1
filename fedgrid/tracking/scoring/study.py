"""A study is the runs of a grid and their results: tables, figures and reports are functions of it.

Shapes: S runs, R rounds, K clients.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from fedgrid.arguments import check_arguments
from fedgrid.tracking.arrays import Array, group_by
from fedgrid.tracking.names import names_line
from fedgrid.tracking.scoring.client_scores import HARM
from fedgrid.tracking.scoring.partitions import CLUSTERING_SCORES
from fedgrid.tracking.scoring.run import AxisValue, Run, Scenario, select_runs
from fedgrid.tracking.scoring.selection import Condition
from fedgrid.tracking.training_line import describe_training

if TYPE_CHECKING:
    from pandas import DataFrame

SPLITS = (
    "nonoverlapping-balanced",
    "nonoverlapping-imbalanced",
    "overlapping-balanced",
    "overlapping-imbalanced",
)
"""The splits of the papers, in the order of their tables."""

IDENTITY = ("run_id", "name", "dataset", "split", "clients", "algorithm", "seed")
SHOWN = ("clusters", "ari", "personalised_accuracy", "generalised_accuracy")
"""Scores in a study's text, which a notebook shows."""
MOST, WIDTH = 10, 79
"""Largest number of algorithms, and of characters of a line, in this text: a screen."""

T = TypeVar("T")


@dataclass(frozen=True)
class Study:
    """The runs of a grid in its order, finished or not: what tables, figures and reports are made from.

    Args:
        name: name of the grid.
        runs: its runs, in the order of the grid.
        notes: sentences that a reader must know, as that some runs went on with other code.
        superseded: number of runs of earlier launches that are left out.

    Example:
        >>> from pathlib import Path
        >>> import fedgrid
        >>> runs = [
        ...     fedgrid.Run(
        ...         run_id=f"{algorithm}-{seed}", name=algorithm, folder=Path("runs"), dataset="digits",
        ...         split="overlapping-balanced", clients=15, algorithm=algorithm, published=None,
        ...         seed=seed, rounds=3,
        ...     )
        ...     for algorithm in ("fedavg", "solo")
        ...     for seed in (0, 1)
        ... ]
        >>> study = fedgrid.Study("example", tuple(runs))
        >>> study.algorithms
        ('fedavg', 'solo')
        >>> [run.run_id for run in study.where(algorithm="solo", seed=1).runs]
        ['solo-1']
        >>> study.where(algorithm="sole")
        Traceback (most recent call last):
        ValueError: no run has algorithm='sole'; did you mean 'solo'? there are fedavg, solo
    """

    name: str
    """Name of the grid."""
    runs: tuple[Run, ...]
    """Its runs, in the order of the grid."""
    notes: tuple[str, ...] = ()
    """Sentences that a reader must know, as that some runs went on with other code."""
    superseded: int = 0
    """Number of runs of earlier launches that are left out."""

    def to_pandas(self, *, by_round: bool = False) -> "DataFrame":
        """Build a frame with a row for each finished run and the last value of each score.

        Args:
            by_round: a row for each round, with the scores of that round, NaN where there is none (default
                False).

        Returns:
            The columns are what identifies the run, the grid's further axes, then the scores as in
                `Run.curves`. A run's row also has `clustering_round`, `last_change_round`,
                `exactly_right`, `worse_than_solo` and `worse_than_fine_tuned`.
        """
        from pandas import DataFrame, concat

        if not by_round:
            return DataFrame([_identify_run(run) | _last_scores(run) for run in self.finished])
        # Curves that only some algorithms record become NaN for the others when the frames are joined.
        parts = [
            DataFrame({**_identify_run(run), "round": run.round_R, **run.curves}) for run in self.finished
        ]
        return concat(parts, ignore_index=True) if parts else DataFrame()

    def __repr__(self) -> str:
        """Format what the study is of, and mean scores by algorithm, on a screen at most."""
        facts = self._list_facts()
        width = max((len(name) for name, _ in facts), default=0)
        means = self._average_scores()
        shown = means.head(MOST).to_string(float_format="{:.3f}".format).splitlines() if len(means) else []
        more = [f"and {len(means) - MOST} more algorithms"] if len(means) > MOST else []
        lines = [f"Study {self._format_title()}", *(f"{name:{width}}  {value}" for name, value in facts)]
        lines += [*([""] if shown else []), *shown, *more]
        return "\n".join(line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..." for line in lines)

    def _repr_html_(self) -> str:
        """Format the same for a cell of a notebook, with the runs to unfold."""
        facts = "".join(f"<tr><th>{escape(n)}</th><td>{escape(v)}</td></tr>" for n, v in self._list_facts())
        means, runs = (_format_html(frame) for frame in (self._average_scores(), self._list_runs()))
        listed = f"<details><summary>runs</summary>{runs}</details>" if runs else ""
        return f"<b>{escape(self._format_title())}</b><table>{facts}</table>{means}{listed}"

    def _format_title(self) -> str:
        """Format the first line: the study's name, and how many runs are finished."""
        return f"{self.name}: {len(self.finished)} of {len(self.runs)} runs finished"

    def _list_facts(self) -> list[tuple[str, str]]:
        """List names and values that describe the runs: data sets, clients, axes, and missing results."""
        axes = dict.fromkeys(key for run in self.runs for key, _ in run.axes)
        # A study in a notebook should not look finished if some of its runs failed.
        lacking = "; ".join(f"{run.name}: {run.lacking}" for run in self.unfinished)
        facts: dict[str, Iterable[object]] = {
            "data sets": self.datasets,
            "clients": sorted({run.clients for run in self.runs}),
            "splits": self.splits,
            "algorithms": self.algorithms,
            "seeds": sorted({run.seed for run in self.runs}),
            **{key: _list_distinct(dict(run.axes).get(key, "") for run in self.runs) for key in axes},
            "lacking": [lacking] if lacking else [],
        }
        words = [(name, ", ".join(map(str, values))) for name, values in facts.items()]
        return [pair for pair in words if pair[1]]

    def _average_scores(self) -> "DataFrame":
        """Compute, for each algorithm, its number of finished runs and the means of `SHOWN` that any has."""
        frame = self.to_pandas()
        if frame.empty:
            return frame
        runs = frame.groupby("algorithm")
        means = runs[[key for key in SHOWN if key in frame]].mean()
        means.insert(0, "runs", runs.size())
        # `groupby` sorts by name; the study's order has the references last.
        names = [name for name in self.algorithms if name in means.index]
        # A score that no run has, as the ARI of splits without groups, would be an empty column.
        return means.loc[names].dropna(axis="columns", how="all").rename_axis(index=None, columns="mean")

    def _list_runs(self) -> "DataFrame":
        """Build a row for each finished run: the columns in which runs differ, and a few scores."""
        frame = self.to_pandas()
        varied = (
            [key for key in _identify_run(self.runs[0]) if frame[key].nunique() > 1] if len(frame) else []
        )
        columns = dict.fromkeys(["algorithm", *varied, *SHOWN])
        return frame[[key for key in columns if key in frame and key not in ("run_id", "name")]]

    @check_arguments()
    def where(self, **values: Any) -> "Study":
        """Select the runs that have all of these values: `where(dataset="mnist", seed=[0, 1])`.

        A keyword is a field of `Run` or any key of a run's configuration: `split`, `rounds`,
        `**{"training.rounds": 5}`, or its last part where no other key ends so: `lam` of `algorithm.lam`.
        An algorithm goes by its id, with or without settings, or by its name in papers. Of a list, any value
        will do.

        Raises:
            ValueError: there is no such keyword, or no run of this study has such a value.
        """
        conditions = (
            Condition(
                name, "=", tuple(value) if isinstance(value, list | set | frozenset | range) else (value,)
            )
            for name, value in values.items()
        )
        return self.only(select_runs(self.runs, conditions))

    def with_values(self, **values: Any) -> "Study":
        """Select the runs whose fields have just these values; it may have no runs."""
        return self.only(run for run in self.runs if all(getattr(run, key) == values[key] for key in values))

    @check_arguments()
    def only(self, runs: Iterable[Run]) -> "Study":
        """Build the study of some of its runs, without duplicates."""
        # A run that is listed twice would count twice in every mean.
        return replace(self, runs=tuple({run.run_id: run for run in runs}.values()))

    @property
    def finished(self) -> tuple[Run, ...]:
        """The finished runs, in the order of the runs."""
        return tuple(run for run in self.runs if run.is_finished)

    def has(self, curve: str) -> bool:
        """Check whether any finished run has a value of a curve."""
        return any(run.has(curve) for run in self.finished)

    @property
    def unfinished(self) -> tuple[Run, ...]:
        """The runs without a result."""
        return tuple(run for run in self.runs if not run.is_finished)

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets of the runs, in the order of the runs, like all properties below."""
        return _list_distinct(run.dataset for run in self.runs)

    @property
    def blocks(self) -> tuple[tuple[str, int], ...]:
        """Pairs of data set and number of clients; those of a data set are adjacent, fewer clients first."""
        order = self.datasets.index
        return tuple(sorted({run.block for run in self.runs}, key=lambda one: (order(one[0]), one[1])))

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits of the runs: those of `SPLITS` first, then others."""
        present = _list_distinct(run.split for run in self.runs)
        return _list_distinct(split for split in (*SPLITS, *present) if split in present)

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Ids of the algorithms, with the settings that tell them apart; the references come last."""
        # The sort is stable: within each group algorithms stay in the order of the runs.
        return _list_distinct(run.algorithm for run in sorted(self.runs, key=lambda run: run.is_reference))

    @property
    def names_line(self) -> str:
        """A sentence on what papers call the algorithms, empty if they have no other names."""
        return names_line({run.algorithm: run.published for run in self.runs})

    @property
    def trained_line(self) -> str:
        """The training of the runs, in one line."""
        return describe_training([run.keys for run in self.runs])

    @property
    def references(self) -> tuple[str, ...]:
        """Algorithms that are no competitors."""
        return _list_distinct(run.algorithm for run in self.runs if run.is_reference)

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
        return _list_distinct(run.setting for run in self.runs)

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """Scenarios of the runs by data set, number of clients, split and setting."""
        present = {run.scenario for run in self.runs}
        combinations = product(self.blocks, self.splits, self.settings)
        # From the product, and not from the runs, so that rows come in the papers' order in any grid.
        scenarios = ((*block, split, *setting) for block, split, setting in combinations)
        return tuple(scenario for scenario in scenarios if scenario in present)

    def cells(self) -> Mapping[tuple[Scenario, str], "Study"]:
        """Group the runs by scenario and algorithm: studies whose runs differ in their seeds only."""
        groups = group_by(self.runs, attrgetter("scenario", "algorithm"))
        return {key: self.only(runs) for key, runs in groups.items()}


def require_one_value(study: Study, *parts: str) -> tuple[Any, ...]:
    """Read the value of each part on which all runs agree: `dataset`, `clients`, `split`.

    The runs must agree in `setting` too.

    Raises:
        ValueError: if they do not.
    """
    for part in (*parts, "setting"):
        values = _list_distinct(getattr(run, part) for run in study.runs)
        if len(values) > 1:
            raise ValueError(
                f"{study.name} has several values of {part} ({', '.join(map(str, values))}), expected one: "
                f"choose with study.where({part}={values[0]!r})"
            )
    return tuple(getattr(study.runs[0], part) for part in parts) if study.runs else ()


def stack_by_round(results: Sequence[Run], curve: str) -> tuple[Array, Array]:
    """Stack a curve of all runs: rounds, shape (R,), and values, (S, R), NaN in rounds that a run lacks."""
    round_R = np.unique(np.concatenate([result.round_R for result in results]))
    # Runs may stop at different rounds: their curves are padded instead of cut to the shortest.
    values_SR = np.full((len(results), len(round_R)), np.nan)
    for values_R, result in zip(values_SR, results, strict=True):
        values_R[np.searchsorted(round_R, result.round_R)] = result.curves[curve]
    return round_R, values_SR


def replace_special_characters(name: str) -> str:
    """Replace characters that file names and anchors may not have by underscores."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", name)


def format_slug(name: str) -> str:
    """Format a name in lower case, with hyphens for all but letters and digits: part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _list_distinct(values: Iterable[T]) -> tuple[T, ...]:
    """List distinct values in their order."""
    return tuple(dict.fromkeys(values))


def _format_html(frame: "DataFrame") -> str:
    """Format a frame as a table, empty if it has no row."""
    settings = {"max_rows": 40, "float_format": "{:.3g}".format, "border": 0}
    return str(frame.to_html(index="runs" in frame, **settings)) if len(frame) else ""


def _identify_run(run: Run) -> dict[str, Any]:
    """Collect what identifies a run in a frame: `IDENTITY` and its further axes."""
    return {name: getattr(run, name) for name in IDENTITY} | dict(run.axes)


def _last_scores(run: Run) -> dict[str, Any]:
    """Collect a run's scores for its row: its clustering, harm, and the last value of each curve."""
    clustering = {name: run.scores[name] for name in CLUSTERING_SCORES}
    harm = {score.name: run.scores[score.name] for score in HARM if score.name in run.scores}
    return {
        "rounds": len(run.round_R),
        **{name: np.nan if value is None else value for name, value in {**clustering, **harm}.items()},
        **{name: run.last(name) for name in run.curves},
    }


def format_split_name(split: str) -> str:
    """Format the name of a split in headings, as the papers have theirs: `overlapping balanced`."""
    return split.replace("-", " ") if split in SPLITS else split
