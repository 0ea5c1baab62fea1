"""A run as a row: its columns, its result if it is finished, and the selection of runs by their values.

`grids.results.runs` reads it. A field that is not read yet, or that a run does not have, is empty.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from fedgrid.arguments import ArgumentError, check_arguments
from fedgrid.tracking.arrays import Array, last_number
from fedgrid.tracking.names import is_as_published, nearest_score
from fedgrid.tracking.records import Records, RecordsError, read_records, read_table
from fedgrid.tracking.scoring.client_scores import PUBLISHED
from fedgrid.tracking.scoring.scores import compute_curves
from fedgrid.tracking.scoring.selection import Condition, format_value

AxisValue: TypeAlias = tuple[str, str]
"""A further axis of a grid and its value: `("split.majority", "0.5")`."""
Scenario: TypeAlias = tuple[str, int, str, *tuple[AxisValue, ...]]
"""Data set, clients, split, then the setting."""
SETTING_OF_ALGORITHM = "algorithm."
"""Axes that begin like this are settings of an algorithm; they belong to no scenario."""
FINISHED, FAILED, DAMAGED = "finished", "failed", "damaged"
IDENTITY = ("run", "run_id", "state", "superseded", "scenario", "variant", "folder")
NOTE, TAG = "note", "tags."
"""A column, and the beginning of one for each tag, as in MLflow."""
TIMES = ("seconds", "uncached_seconds", "rounds_computed", "peak_memory_mb")


class Scores(dict[str, Any]):
    """Final scores by name; the `KeyError` of an unknown name lists those that there are."""

    def __missing__(self, name: str) -> Any:
        if not self:
            raise KeyError(f"no score '{name}': the run is not finished, and has none yet")
        near = nearest_score(str(name), self)
        raise KeyError(f"no score '{name}'; {near}there are {', '.join(sorted(self))}")


@dataclass(frozen=True)
class Run:
    """A run of a grid: its place in the grid, its state, and its result if it is finished.

    `fedgrid.run` and `fedgrid.load` build it; all fields from `method` on may be left out. It holds a few
    kilobytes: the records stay in the run's folder.

    Args:
        run_id: digest of the run's configuration, 12 hexadecimal digits.
        name: its name in tables and folders.
        folder: its folder in the storage.
        dataset: name of the data set.
        split: the kind of its split, as `overlapping-balanced`.
        clients: number of clients, those that are held out included.
        algorithm: id of its algorithm, with the settings that tell apart the runs of one scenario and seed:
            `ocfl-hdbscan`, `sattler (cooldown 5)`.
        published: name of the algorithm in papers, the row of their tables to compare it with: `OCFL-HDB`,
            `SCL`; None if there is none.
        seed: seed of the run.
        rounds: number of rounds when it is finished; fewer than its configuration says if it has stopped
            early.
        method: the algorithm's id without settings: `sattler` of `sattler (cooldown 5)`.
        axes: the run's values of the grid's axes other than data set, split, clients, seed and algorithm.
        variant: settings in which it differs from runs of its name, as in `round 6, threshold 0.4`.
        is_superseded: whether the grid's last launch no longer requests it.
        place: its data set, number of clients and split, as in `mnist-15-overlapping-imbalanced`.
        is_archived: whether it is one of the published runs themselves, read from the authors' archive.
        is_reference: whether its algorithm is a row to compare with and no competitor: never the best, not
            ranked.
        model_bytes: size of a model as it is sent, four bytes an entry, buffers included; None unless `sizes`
            is set.
        values: its value of every key that can be an axis, as it would stand in JSON; without the settings
            that other algorithms have.
        idle: those keys that have no effect on this run's kind of split: they are in no table's heading.
        state: `finished`, `failed`, `damaged`, `7 of 15 rounds` or `not started`; empty if it is not read.
        cause: why it failed, is damaged, or cannot be read; empty of any other run.
        times: `TIMES` of a run that has ended, and the number of `rounds` in these sums.
        notes: the user's notes on it: `NOTE`, and `TAG` with the key of each tag.
        scores: the final scores by name, as `ari` and `personalised_accuracy`, None for one that is not
            defined: `tracking.scoring.scores.score_run`, which `scores.json` in the run's folder keeps.
        round_R: numbers of the rounds of a finished run; like all fields below empty for other runs.
        curves: name -> score of each round, shape (R,), NaN in rounds without it
            (`scoring.scores.compute_curves`).
        labels_RK: the cluster of each client in each round.
        accuracy_RK: the personalised accuracy of each client, NaN where it was not tested.
        client_K: the numbers of the clients of these arrays: all but those that are held out.
        truth_K: the hidden groups of round 1; `group_names` has what the data set calls them, if it has any.

    Example:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import fedgrid
        >>> run = fedgrid.Run(
        ...     run_id="5f0c", name="digits-fedavg-0", folder=Path("runs/5f0c"), dataset="digits",
        ...     split="overlapping-balanced", clients=15, algorithm="fedavg", published="FedAvg", seed=0,
        ...     rounds=3, round_R=np.arange(1, 4), curves={"ari": np.array([np.nan, 0.5, 1.0])},
        ... )
        >>> run.is_finished, run.scenario
        (True, ('digits', 15, 'overlapping-balanced'))
        >>> run.last("ari"), run.mean("ari")
        (1.0, 0.75)
    """

    run_id: str
    """Digest of the run's configuration, 12 hexadecimal digits."""
    name: str
    """Its name in tables and folders."""
    folder: Path
    """Its folder in the storage."""
    dataset: str
    """Name of the data set."""
    split: str
    """The kind of its split, as `overlapping-balanced`."""
    clients: int
    """Number of clients, those that are held out included."""
    algorithm: str
    """Id of its algorithm, with the settings that tell apart the runs of one scenario and seed:
    `ocfl-hdbscan`, `sattler (cooldown 5)`."""
    published: str | None
    """Name of the algorithm in papers, the row of their tables to compare it with: `OCFL-HDB`, `SCL`; None if
    there is none."""
    seed: int
    """Seed of the run."""
    rounds: int
    """Number of rounds when it is finished; fewer than its configuration says if it has stopped early."""
    method: str = ""
    """The algorithm's id without settings: `sattler` of `sattler (cooldown 5)`."""
    axes: tuple[AxisValue, ...] = ()
    """The run's values of the grid's axes other than data set, split, clients, seed and algorithm."""
    variant: str | None = None
    """Settings in which it differs from runs of its name, as in `round 6, threshold 0.4`."""
    is_superseded: bool = False
    """Whether the grid's last launch no longer requests it."""
    place: str = ""
    """Its data set, number of clients and split, as in `mnist-15-overlapping-imbalanced`."""
    is_archived: bool = False
    """Whether it is one of the published runs themselves, read from the authors' archive."""
    is_reference: bool = False
    """Whether its algorithm is a row to compare with and no competitor: never the best, not ranked."""
    model_bytes: int | None = None
    """Size of a model as it is sent, four bytes an entry, buffers included; None unless `sizes` is set."""
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Its value of every key that can be an axis, as it would stand in JSON; without the settings that other
    algorithms have."""
    idle: frozenset[str] = field(default=frozenset(), compare=False)
    """Those keys that have no effect on this run's kind of split: they are in no table's heading."""
    state: str = field(default="", compare=False)
    """`finished`, `failed`, `damaged`, `7 of 15 rounds` or `not started`; empty if it is not read."""
    cause: str = field(default="", compare=False)
    """Why it failed, is damaged, or cannot be read; empty of any other run."""
    times: Mapping[str, float | None] = field(default_factory=dict, compare=False)
    """`TIMES` of a run that has ended, and the number of `rounds` in these sums."""
    notes: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The user's notes on it: `NOTE`, and `TAG` with the key of each tag."""
    scores: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The final scores by name, as `ari` and `personalised_accuracy`, None for one that is not defined:
    `tracking.scoring.scores.score_run`, which `scores.json` in the run's folder keeps."""
    round_R: Array = field(default_factory=partial(np.empty, 0), compare=False)
    """Numbers of the rounds of a finished run; like all fields below empty for other runs."""
    curves: Mapping[str, Array] = field(default_factory=dict, compare=False)
    """Name -> score of each round, shape (R,), NaN in rounds without it (`scoring.scores.compute_curves`).
    A name that is no score's is a `KeyError`."""
    labels_RK: Array = field(default_factory=partial(np.empty, 0), compare=False)
    """The cluster of each client in each round."""
    accuracy_RK: Array = field(default_factory=partial(np.empty, 0), compare=False)
    """The personalised accuracy of each client, NaN where it was not tested."""
    client_K: Array = field(default_factory=partial(np.empty, 0), compare=False)
    """The numbers of the clients of these arrays: all but those that are held out."""
    truth_K: Array = field(default_factory=partial(np.empty, 0), compare=False)
    """The hidden groups of round 1; `group_names` has what the data set calls them, if it has any."""
    group_names: Mapping[int, str] = field(default_factory=dict, compare=False)
    """Number of a hidden group -> what the data set calls it; empty if it has no names."""

    def __post_init__(self) -> None:
        """Wrap the scores, so that an unknown name is an error that lists the known ones."""
        object.__setattr__(self, "scores", Scores(self.scores))

    @property
    def is_finished(self) -> bool:
        """Whether it has a result."""
        return len(self.round_R) > 0

    @property
    def stopped(self) -> str:
        """Where it stopped early: `stopped after round 17 of 50`; empty of any other run."""
        planned = self.values.get("training.rounds", self.rounds)
        return f"stopped after round {self.rounds} of {planned}" if self.rounds < planned else ""

    @property
    def lacking(self) -> str:
        """Why it has no result: `30 of 50 rounds`, `not started`, `failed: ...`; empty of a finished run."""
        if self.state == DAMAGED:
            return f"{self.cause}; `fedgrid run` repeats it"
        return ": ".join(filter(None, ("" if self.state == FINISHED else self.state, self.cause)))

    @cached_property
    def keys(self) -> Mapping[str, str]:
        """Its `values` as text, by key of its configuration."""
        return {key: format_value(value) for key, value in self.values.items()}

    @cached_property
    def recorded(self) -> Mapping[str, float]:
        """The last value of each number that its records have by round; empty for a damaged run."""
        if self.state == DAMAGED:
            return {}
        try:
            by_round = compute_curves(read_records(self.folder))
        except RecordsError:
            return {}
        last_values = {name: last_number(values_R) for name, values_R in by_round.items()}
        return {name: value for name, value in last_values.items() if not np.isnan(value)}

    def value(self, column: str) -> Any:
        """Read the value of a column of `fedgrid show`, None if the run has none.

        A column is one of `IDENTITY`, `scores`, `values` (keys of its configuration), `times`, `notes`, or a
        number that is recorded by round, of which it is the last.
        """
        own = (self.name, self.run_id, self.state, self.is_superseded, self.place, self.variant)
        identity = dict(zip(IDENTITY, (*own, self.folder.name), strict=True))
        # The order decides which one a name means, if a key and a score share it.
        for columns in (identity, self.scores, self.notes, self.times, self.values):
            if column in columns:
                return columns[column]
        # All other columns with a dot are settings that the run lacks.
        return None if column in (NOTE, *TIMES) or "." in column else self.recorded.get(column)

    @property
    def has_hits(self) -> bool:
        """Whether a round was a hit of the round cache, in part at least."""
        return (self.times.get("rounds_computed") or 0) < (self.times.get("rounds") or 0)

    @property
    def is_as_published(self) -> bool:
        """Whether its algorithm is one with a paper's mistakes."""
        return is_as_published(self.algorithm)

    @property
    def setting(self) -> tuple[AxisValue, ...]:
        """The axes that are no settings of the algorithm; algorithms are compared at the same setting."""
        return tuple(pair for pair in self.axes if not pair[0].startswith(SETTING_OF_ALGORITHM))

    @property
    def block(self) -> tuple[str, int]:
        """Data set and number of clients: the papers have one table for each."""
        return self.dataset, self.clients

    @property
    def split_in_words(self) -> str:
        """The split as in headings: `overlapping balanced`."""
        return self.split.replace("-", " ")

    @property
    def scenario(self) -> Scenario:
        """Data set, clients, split and setting, which runs share that differ in algorithm and seed only."""
        return (self.dataset, self.clients, self.split, *self.setting)

    @property
    def config(self) -> dict[str, Any]:
        """Its configuration, as `fedgrid.run` takes it: what can be set of its file `config.json`."""
        values: dict[str, Any] = json.loads((self.folder / "config.json").read_bytes())
        # Both are set by fedgrid itself when it writes the file.
        return {key: value for key, value in values.items() if key not in ("format", "plugin_digests")}

    @check_arguments()
    def table(self, name: str) -> pa.Table:
        """Read a table of its records: `rounds` (a row a round), `clients` (a row a round and client)."""
        return read_table(self.folder, name)

    @property
    def records(self) -> Records:
        """The records as arrays, as `figures.run_figure` and `figures.cluster_map` take them."""
        return read_records(self.folder)

    def mean(self, curve: str, *, last: int = 0) -> float:
        """Compute the mean over the rounds that have a value, NaN if none has.

        NaN, too, of a published score of which `scores` has no mean. With `last`, over that many last rounds;
        the last value if none of them has one.
        """
        values_R = self.curves[curve]
        if last < 0:
            raise ArgumentError(f"mean: last = {last}: expected a number of rounds, 0 for all")
        if last:
            at_end = values_R[-last:]
            # Tests may be rarer than these last rounds.
            return self.last(curve) if np.isnan(at_end).all() else float(np.nanmean(at_end))
        measured = values_R[~np.isnan(values_R)]
        # `score_run` leaves out a published mean of local models that were tested in some rounds only.
        is_missing = curve in PUBLISHED and self.scores.get(curve, values_R) is None
        return float(measured.mean()) if len(measured) and not is_missing else float("nan")

    def last(self, curve: str) -> float:
        """Find the value of the last round that has one, NaN if none has."""
        return last_number(self.curves[curve])

    def has(self, curve: str) -> bool:
        """Check whether any round has a value of a curve."""
        # Numbers of an algorithm's own are curves of its runs alone.
        return curve in self.curves and not bool(np.isnan(self.curves[curve]).all())


def load_result(run: Run, scores: Mapping[str, Any]) -> Run:
    """Add a run's result: these final scores, and the curves that are computed from its records.

    Raises:
        RecordsError: there are no records, or they are not of all of its rounds and clients.
    """
    records = read_records(run.folder)
    rounds, clients = len(records.round_R), len(records.client_K) + records.held_out_RH.shape[1]
    # A run that goes on under another driver has other records than its manifest said a moment ago.
    if (rounds, clients) != (run.rounds, run.clients):
        raise RecordsError(
            f"the records in {run.folder} are of {rounds} rounds and {clients} clients, not {run.rounds} and "
            f"{run.clients}; run it again"
        )
    return replace(
        run,
        scores=scores,
        round_R=records.round_R,
        curves=compute_curves(records),
        labels_RK=records.clients["cluster"],
        accuracy_RK=records.clients["personalised_accuracy"],
        client_K=records.client_K,
        truth_K=records.truth_K,
        group_names=records.group_names,
    )


def format_early_stops(runs: Sequence[Run]) -> str:
    """Format the line that counts the runs that stopped early, and their rounds; empty without any."""
    rounds = sorted(run.rounds for run in runs if run.stopped)
    if not rounds:
        return ""
    at = f"round {rounds[0]}" if rounds[0] == rounds[-1] else f"rounds {rounds[0]} to {rounds[-1]}"
    return f"Stopped early (training.stop_after): {len(rounds)} of {len(runs)} runs, after {at}."


def format_validation_scores(runs: Sequence[Run]) -> str:
    """Format the line that counts the runs that are scored on validation images; empty without any."""
    count = sum(run.values.get("split.scored_on") == "validation" for run in runs)
    if not count:
        return ""
    return (
        f"Clients' scores of {count} of {len(runs)} runs are on validation images, not on their test images."
    )


AXES = ("dataset", "clients", "split", "algorithm", "seed")
"""Axes that every grid has; a user may name them in the plural."""
SYNONYMS = {
    **{name: (name,) for name in ("run_id", "name", "dataset", "clients", "published", "seed", "rounds")},
    **{name: (name,) for name in ("method", "is_archived", "is_reference", "model_bytes", "setting")},
    "scenario": ("scenario",),
    "algorithm": ("algorithm", "method", "published"),
    "split": ("split", "split_in_words"),
}
"""Column -> the attributes of a run that it may stand for, besides a key of its configuration."""


def find_axis(runs: Sequence[Run], name: str, *, others: Collection[str] = ()) -> str:
    """Find the axis that a word names: one of `AXES`, a run's key, one of `others`, or a key's last part.

    Raises:
        ValueError: there is no such axis, or several end so.
    """
    keys = dict.fromkeys(key for run in runs for key in (*dict(run.axes), *run.keys))
    # The word itself comes first: some keys end with an s of their own.
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


def select_runs(runs: Sequence[Run], conditions: Iterable[Condition]) -> list[Run]:
    """Select the runs that meet all conditions.

    Raises:
        ValueError: there is no such column, or no run has one of the values.
    """
    chosen = list(runs)
    others = tuple(dict.fromkeys((*SYNONYMS, *(name for run in runs for name in run.scores))))
    for condition in conditions if runs else ():
        column = find_axis(runs, condition.column, others=others)
        present = {run.run_id: values_in_column(run, column) for run in runs}
        # A misspelled value would otherwise select nothing in silence.
        for value in condition.values if condition.operator == "=" else ():
            if not any(
                replace(condition, values=(value,)).matches_values(values) for values in present.values()
            ):
                raise ValueError(_explain_no_match(condition.column, value, [*present.values()]))
        chosen = [run for run in chosen if condition.matches_values(present[run.run_id])]
    return chosen


def values_in_column(run: Run, column: str) -> list[Any]:
    """List a run's values of an axis or another column: that of its configuration first, then synonyms."""
    keys = {**run.scores, **run.keys, **dict(run.axes)}
    key_values = [keys[column]] if column in keys else []
    # Its own value, since a choice with settings is selected by its name too.
    key_values += [run.values[column]] if isinstance(run.values.get(column), Mapping) else []
    return [*key_values, *(getattr(run, name) for name in SYNONYMS.get(column, ()))]


def _explain_no_match(column: str, value: object, present: Sequence[Sequence[Any]]) -> str:
    """Explain that no run has a value: name the nearest one, and at most 20 that there are."""
    # The first value of a run is its configuration's; synonyms come after it, and only the suggestion may
    # be one.
    present = [[one for one in values if not isinstance(one, Mapping)] for values in present]
    ids = list(dict.fromkeys(str(one) for values in present for one in values[:1] if one is not None))
    every = [*ids, *(str(one) for values in present for one in values if one is not None)]
    near = get_close_matches(str(value), list(dict.fromkeys(every)), 1)
    shown = ", ".join(ids[:20]) + (", ..." if len(ids) > 20 else "")
    return f"no run has {column}={value!r}; {f'did you mean {near[0]!r}? ' if near else ''}there are {shown}"
