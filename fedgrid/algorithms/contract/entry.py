"""The entry of an algorithm in the registry: name, title, defaults, search space, references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Algorithm, Settings

SearchSpace: TypeAlias = Mapping[str, Any]
"""Setting -> a list of values, or a range with `low` and `high`, as in the file of a search."""
TruthKind: TypeAlias = Literal["", "number", "groups"]
"""Knowledge of the hidden groups that an algorithm is given: none, their number, or the groups themselves."""


@dataclass(frozen=True)
class OwnNumber:
    """A number of each round that an algorithm, or its clients' rule, adds to the records.

    The server takes it from `Diagnostics.metrics`, where the algorithm returned it under this name. Otherwise
    it is the mean of the rule's output of this name, over its entries and over the clients, all weighted
    alike: something that only clients can measure. It is declared in `AlgorithmEntry.numbers`, or in
    `LocalMethod.numbers`. The number is a column of `rounds.parquet`, a curve and a table of the report, a
    curve of `figures.per_round(study, "spread")` and of `fedgrid show RUN`, a column of `fedgrid show GRID
    --columns spread`, and a metric in MLflow (`other/spread`). A value that is not finite is null.

    Args:
        name: name of the column in `rounds.parquet`, float64: small letters, digits and _.
        meaning: one sentence that says what the number is.
        section: section of the metric in MLflow, before the slash.

    Raises:
        FedgridError: the entry of a plugin has a name that is no column name, or that is taken already.

    Example:
        >>> import fedgrid
        >>> number = fedgrid.OwnNumber("spread", "Mean distance between the cluster models.")
        >>> number.section
        'other'
    """

    name: str
    """Name of the column in `rounds.parquet`, float64: small letters, digits and _."""
    meaning: str
    """One sentence that says what the number is."""
    section: str = "other"
    """Section of the metric in MLflow, before the slash."""


@dataclass(frozen=True)
class AlgorithmEntry:
    """An algorithm in the registry: what `fedgrid list algorithms` shows, and what a run is created from.

    A plugin lists its entries in `ALGORITHMS`.

    Args:
        name: name in configurations and on the command line: small letters, digits and hyphens.
        title: name in papers and tables.
        summary: one line that says what the algorithm does.
        source: paper with its arXiv number, or a page of docs/; `ours` for one without.
        algorithm: class of the algorithm; it is called with the settings.
        settings: defaults of a run with this algorithm; their class says which keys there are.
        is_reference: whether it is a row to compare with and no competitor: never the best, in no rank and in
            no test.
        search: search space of `fedgrid search` and `fedgrid arena`, or a function that returns it for the
            number of rounds of the shortest run.
        bibtex: BibTeX entries of its papers, separated by blank lines, which `fedgrid cite` prints; empty:
            there is none.
        arena: settings with which it is in the arena, in addition to its defaults; None: it is not in the
            arena.
        numbers: numbers of its own, which records, `fedgrid show`, MLflow and reports have.
        told: knowledge of the hidden groups that no real server has: `number`, which a setting then holds, or
            `groups`; empty: none.

    Raises:
        FedgridError: the plugin's entry has a name that is taken, or fields of the wrong type; checked when
            the plugin is loaded.

    Example:
        >>> import fedgrid
        >>> entry = fedgrid.AlgorithmEntry(
        ...     name="fedavg-half",
        ...     title="FedAvg/2",
        ...     summary="federated averaging with half steps",
        ...     source="ours",
        ...     algorithm=fedgrid.FedOpt,
        ...     settings=fedgrid.FedOptSettings(server_learning_rate=0.5),
        ...     search={"server_learning_rate": {"low": 0.1, "high": 1.0}},
        ... )
        >>> entry.build_space(rounds=10)
        {'server_learning_rate': {'low': 0.1, 'high': 1.0}}
    """

    name: str
    """Name in configurations and on the command line: small letters, digits and hyphens."""
    title: str
    """Name in papers and tables."""
    summary: str
    """One line that says what the algorithm does."""
    source: str
    """Paper with its arXiv number, or a page of docs/; `ours` for one without."""
    algorithm: type[Algorithm]
    """Class of the algorithm; it is called with the settings."""
    settings: Settings
    """Defaults of a run with this algorithm; their class says which keys there are."""
    is_reference: bool = False
    """Whether it is a row to compare with and no competitor: never the best, in no rank and in no test."""
    # Mappings are not compared: entries are hashed by the registry's caches, and a dict has no hash.
    search: SearchSpace | Callable[[int], SearchSpace] = field(default_factory=dict, compare=False)
    """Search space of `fedgrid search` and `fedgrid arena`, or a function that returns it for the number of
    rounds of the shortest run. Empty: nothing is tuned."""
    bibtex: str = field(default="", repr=False)
    """BibTeX entries of its papers, separated by blank lines, which `fedgrid cite` prints; empty: there is
    none."""
    arena: Mapping[str, Any] | None = field(default=None, compare=False)
    """Settings with which it is in the arena, in addition to its defaults; None: it is not in the arena."""
    numbers: tuple[OwnNumber, ...] = ()
    """Numbers of its own, which records, `fedgrid show`, MLflow and reports have."""
    told: TruthKind = ""
    """Knowledge of the hidden groups that no real server has: `number`, which a setting then holds, or
    `groups`; empty: none."""

    @property
    def truth_line(self) -> str:
        """Sentence that says what the algorithm is given of the hidden groups; empty if nothing."""
        what = {"": "", "number": "the number of hidden groups", "groups": "the hidden groups"}[self.told]
        return f"Given: {what}." if what else ""

    def build_space(self, rounds: int) -> dict[str, Any]:
        """Build the search space for runs of this many rounds, the shortest; empty if nothing is tuned."""
        return dict(self.search(rounds) if callable(self.search) else self.search)


def choose_clustering_rounds(rounds: int) -> dict[str, int]:
    """Choose the range of rounds to cluster in: from a tenth to six tenths of a run, in steps of a tenth.

    The remaining rounds let the clusters' models improve.
    """
    tenth = max(1, rounds // 10)
    return {"low": tenth, "high": max(tenth + 1, rounds * 6 // 10), "step": tenth}
