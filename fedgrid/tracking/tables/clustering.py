"""Tables 1 and 2: scores and rounds of each algorithm's clustering.

They are in the published conventions and in the right ones.

Source: OCFL journal paper, arXiv:2509.01587, Tables 1 and 2; conventions in `tracking.scoring.partitions`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.partitions import PUBLISHED_ROUNDS
from fedgrid.tracking.scoring.study import Study, format_split_name, require_one_value
from fedgrid.tracking.tables.cells import (
    StudyColumn,
    average_seeds,
    build_algorithms_table,
    explain_table,
    restrict_cell,
)
from fedgrid.tracking.tables.table import (
    ABSENT,
    NONE,
    Cell,
    Column,
    Row,
    Table,
    build_dash_cell,
    build_seed_mean_cell,
    build_share_cell,
)

ROUNDS = {"first": measures.CLUSTERING_ROUND, "last": measures.LAST_CHANGE}


def published_clustering(study: Study) -> Table:
    """Build Table 1 of one data set and number of clients, as it was published."""
    dataset, clients = require_one_value(study, "dataset", "clients")
    return _build_split_table(
        study,
        f"table1-{dataset}-{clients}",
        f"Table 1, as published: {dataset}, {clients} clients",
        f"Published conventions: means over the first {PUBLISHED_ROUNDS} rounds; RAND is the adjusted Rand "
        "index, COM is homogeneity, the AMI of ocfl-hdbscan is its RAND. Best of a column in bold. –: one "
        "cluster in all of these rounds.",
        measures.PUBLISHED_CLUSTERING,
        build_published_cell,
    )


def build_published_cell(study: Study, measure: Measure) -> Cell:
    """Build a cell of Table 1: a dash if no run ever had two clusters."""
    if not any((result.curves["clusters"][:PUBLISHED_ROUNDS] > 1).any() for result in study.finished):
        return _build_dash_cell(study, 0.0)
    return average_seeds(study, measure)


def build_clustering_table(study: Study, *, final: bool) -> Table:
    """Build the scores of one data set and number of clients, against the hidden groups.

    They are means over all rounds, or with `final` of the last round.
    """
    dataset, clients = require_one_value(study, "dataset", "clients")
    kind, words, scores = "mean", "means over all rounds", measures.MEANS
    if final:
        kind, words, scores = "final", "of the last partition", measures.FINALS
    return _build_split_table(
        study,
        f"clustering-{kind}-{dataset}-{clients}",
        f"Clustering, {words}: {dataset}, {clients} clients",
        f"Scores against the hidden groups, {words}: adjusted Rand index, adjusted mutual information, "
        "homogeneity (1: no cluster mixes groups) and completeness (1: no group is split, as with one "
        "cluster for all clients). Best of a column in bold.",
        dict(zip(("ARI", "AMI", "homog.", "compl."), scores, strict=True)),
        average_seeds,
    )


def build_published_rounds_table(study: Study) -> Table:
    """Build Table 2 of one data set, as it was published."""
    (dataset,) = require_one_value(study, "dataset")
    return build_algorithms_table(
        study,
        _format_name("table2", dataset, study),
        f"Table 2, as published: {dataset}",
        "Published convention: the round, from 1, of the last change of the clients' cluster labels; renamed "
        "clusters count as a change. –: the labels never change.",
        (
            StudyColumn(
                format_split_name(split),
                f"{clients} clients",
                cell=restrict_cell(build_published_round_cell, clients=clients, split=split),
            )
            for clients, split in _list_scenarios(study)
        ),
    )


def build_published_round_cell(study: Study) -> Cell:
    """Build a cell of Table 2: runs whose labels never change are in no mean, or a dash if all are such."""
    rounds = [float(result.scores["published_round"]) for result in study.finished]
    # In the published convention round 1 stands for labels that never change, as with FedAvg.
    if not rounds or set(rounds) == {1.0}:
        return _build_dash_cell(study, 1.0)
    # Round 1 stands for labels that never change, and would pull the mean of the others towards the start.
    changed = [number if number > 1 else np.nan for number in rounds]
    return build_seed_mean_cell(changed, expected=len(study.runs), digits=_choose_digits(study))


def build_rounds_table(study: Study) -> Table:
    """Build the first and the last clustering round of the runs of one data set."""
    (dataset,) = require_one_value(study, "dataset")

    def build_column(clients: int, split: str, name: str, measure: Measure) -> StudyColumn:
        """Build the column of one scenario and one kind of round."""

        def build_cell(own: Study) -> Cell:
            """Build the cell of one algorithm."""
            return average_seeds(
                own.with_values(clients=clients, split=split), replace(measure, digits=_choose_digits(own))
            )

        return StudyColumn(name, f"{clients} clients, {format_split_name(split)}", cell=build_cell)

    return build_algorithms_table(
        study,
        _format_name("rounds", dataset, study),
        f"Clustering rounds: {dataset}",
        "First: the first round, counted from 1, in which the algorithm decided on a partition, even an "
        "unchanged one. Last: the last round in which the partition changed; renamed clusters are no change. "
        "–: never.",
        (build_column(*scenario, *kind) for scenario in _list_scenarios(study) for kind in ROUNDS.items()),
    )


def build_exactly_right_table(study: Study) -> Table:
    """Build the table of runs whose last partition equals the hidden groups, by data set."""
    algorithms = study.algorithms
    parts = {dataset: study.with_values(dataset=dataset) for dataset in study.datasets}
    if len(parts) > 1:
        parts["total"] = study
    table = Table(
        "exactly-right",
        "Runs whose last partition is exactly right",
        "Runs (scenarios x seeds) in whose last round the clusters equal the hidden groups, out of all "
        "finished runs that have such groups; a dash where none has.",
        tuple(map(Column, algorithms)),
        tuple(
            Row(
                name,
                tuple(
                    build_right_share_cell(part.with_values(algorithm=algorithm)) for algorithm in algorithms
                ),
            )
            for name, part in parts.items()
        ),
        corner="data set",
    )
    return explain_table(table, study)


def build_right_share_cell(study: Study) -> Cell:
    """Build the cell of the number of runs whose last partition equals the hidden groups.

    Runs without groups, as of the splits `iid` and `dirichlet`, do not count; a dash if there are no others.
    """
    if not study.runs:
        return Cell(ABSENT)
    answers = [result.scores["exactly_right"] for result in study.finished]
    is_right = [answer for answer in answers if answer is not None]
    if answers and not is_right:
        return Cell(NONE)
    return build_share_cell(sum(is_right), len(is_right), len(is_right) + len(study.unfinished))


def _build_split_table(
    study: Study,
    name: str,
    title: str,
    caption: str,
    headings: Mapping[str, Measure],
    build_cell: Callable[..., Cell],
) -> Table:
    """Build a table with a group of columns for each split."""
    columns = (
        StudyColumn(
            heading,
            format_split_name(split),
            highest=True,
            cell=restrict_cell(partial(build_cell, measure=measure), split=split),
        )
        for split in study.splits
        for heading, measure in headings.items()
    )
    return build_algorithms_table(study, name, title, caption, columns)


def _list_scenarios(study: Study) -> list[tuple[int, str]]:
    """List the number of clients and the split of each scenario of one data set."""
    return [(clients, split) for _, clients, split, *_ in study.scenarios]


def _build_dash_cell(study: Study, value: float) -> Cell:
    """Build a dash, or the cell of a scenario without a run or result."""
    if not study.runs:
        return Cell(ABSENT)
    if not study.finished:
        return Cell()
    return build_dash_cell(value, expected=len(study.runs), finished=len(study.finished))


def _choose_digits(study: Study) -> int:
    """Choose the decimal digits of rounds: none for a single seed, whose round is a whole number."""
    return 0 if len({run.seed for run in study.runs}) < 2 else 1


def _format_name(kind: str, dataset: str, study: Study) -> str:
    """Format a file name with the data set, and with the number of clients if there is one."""
    clients = [str(clients) for _, clients in study.blocks]
    return "-".join([kind, dataset, *(clients if len(clients) == 1 else [])])
