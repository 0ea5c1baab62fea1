"""Studies without a grid: runs described by hand, with results or without."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.algorithms.registry import ALGORITHMS, find_paper_row
from fedgrid.tracking.names import strip_settings
from fedgrid.tracking.records import Columns
from fedgrid.tracking.scoring.partitions import score_clustering, score_partitions, score_published_clustering
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.table import Cell, Table

TRUTH_K = (0, 0, 0, 1, 1, 1)
WHOLE = [TRUTH_K] * 2
"""Labels of a run of two rounds that is right from the first on."""
ONE = [(0,) * 6] * 2
"""Labels of a run that never clusters."""
NOT_RECORDED = dict.fromkeys(
    (
        *("ari", "temperature", "bytes", "personalised_f1", "generalised_f1", "published_pf1"),
        *("published_gf1", "smallest_cluster", "clients_alone"),
    ),
    (nan, nan),
)
"""Curves of a run of two rounds that figures take and that it lacks."""


IDS = {entry.title: name for name, entry in ALGORITHMS.items()}


def make_run(
    algorithm: str = "fedavg",
    *,
    dataset: str = "mnist",
    clients: int = 15,
    split: str = "nonoverlapping-balanced",
    seed: int = 0,
    is_archived: bool = False,
    is_reference: bool = False,
) -> Run:
    """Make a run, of an algorithm by its id or by what papers call it.

    Args:
        algorithm: its id, or what papers call it.
        dataset: short name.
        clients: number of clients.
        split: kind of split.
        seed: of the run.
        is_archived: whether it is one of the authors' archive.
        is_reference: whether others are compared with it.
    """
    algorithm = IDS.get(algorithm, algorithm)
    name = f"{dataset}-{clients}-{split}-{algorithm.lower()}-s{seed}"
    return Run(
        name,
        name,
        Path(name),
        dataset=dataset,
        split=split,
        clients=clients,
        algorithm=algorithm,
        published=find_paper_row(strip_settings(algorithm)),
        seed=seed,
        rounds=2,
        is_archived=is_archived,
        is_reference=is_reference,
    )


def make_result(
    run: Run,
    labels_RK: Sequence[Sequence[int]] | np.ndarray,
    truth_K: Sequence[int] | np.ndarray = TRUTH_K,
    *,
    clustered: Sequence[int] = (),
    curves: Mapping[str, Sequence[float]] | None = None,
) -> Run:
    """Make the result of a run from its labels; curves that are not given are all NaN.

    Args:
        run: which.
        labels_RK: cluster of each client by round.
        truth_K: hidden group of each client.
        clustered: rounds, from 1, in which a partition was decided.
        curves: name -> a number a round.
    """
    labels_RK, truth_K = np.asarray(labels_RK), np.asarray(truth_K)
    rounds = np.arange(1, len(labels_RK) + 1)
    parts = score_partitions(labels_RK, truth_K)
    return replace(
        run,
        scores={
            **score_clustering(labels_RK, truth_K, np.isin(rounds, clustered) if clustered else None),
            **asdict(score_published_clustering(labels_RK, truth_K, run.published)),
        },
        round_R=rounds,
        curves=Columns(
            rounds.shape,
            {
                **{name: np.array([part[name] for part in parts], np.float64) for name in parts[0]},
                **{name: np.asarray(values, np.float64) for name, values in (curves or {}).items()},
            },
        ),
        labels_RK=labels_RK,
        truth_K=truth_K,
        client_K=np.arange(len(truth_K)),
        accuracy_RK=np.full(labels_RK.shape, 0.5),
    )


def make_finished(
    algorithm: str = "fedavg",
    labels_RK: Sequence[Sequence[int]] = ONE,
    *,
    clustered: Sequence[int] = (),
    curves: Mapping[str, Sequence[float]] | None = None,
    **scenario: Any,
) -> Run:
    """Make the result of a run of two rounds that was given nothing but `curves`."""
    run = make_run(algorithm, **scenario)
    return make_result(run, labels_RK, clustered=clustered, curves={**NOT_RECORDED, **(curves or {})})


def make_study(results: Sequence[Run], lacking: Sequence[Run] = (), name: str = "mine") -> Study:
    """Make a study of results, and of runs without any."""
    unfinished = (replace(run, state="1 of 2 rounds", round_R=np.empty(0)) for run in lacking)
    return Study(name, (*results, *unfinished))


def read_texts(table: Table) -> dict[str, list[str]]:
    """Read what is printed in each row, by the row's name."""
    return {row.name: [cell.text for cell in row.cells] for row in table.rows}


def read_cells(table: Table) -> dict[tuple[str, str], Cell]:
    """Read the cells by the row's name and the column's heading, with its group."""
    return {
        (row.name, column.heading): cell
        for row in table.rows
        for column, cell in zip(table.columns, row.cells, strict=True)
    }
