"""The scores of rounds and runs, computed from the records.

Those of clients are declared in `tracking.scoring.client_scores`, those of partitions in
`tracking.scoring.partitions`. Shapes: R rounds, K clients.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from math import nan
from pathlib import Path
from sys import maxsize
from typing import Any

import numpy as np

from fedgrid.record_columns import EVERY_COLUMN
from fedgrid.tracking import records
from fedgrid.tracking.arrays import compute_scores, finite, last, mean
from fedgrid.tracking.records import Columns, Records
from fedgrid.tracking.scoring import disturbances
from fedgrid.tracking.scoring.client_scores import (
    CLIENTS,
    HARM,
    LOCAL_SERVER,
    ONLY_CURVES,
    PREDICTED,
    PROBABILITIES,
    PUBLISHED_CLIENTS,
    TRAINING,
    of_clients,
)
from fedgrid.tracking.scoring.disturbances import ATTACKER, DRIFT, FAULTS, HELD_OUT
from fedgrid.tracking.scoring.partitions import (
    PARTITION,
    clustering,
    published_clustering,
    score_partition,
    score_partitions,
)

OF_ROUNDS = (*PARTITION, *CLIENTS, *TRAINING)
"""Scores that every round has."""
DECLARED = {
    score.name: score
    for score in (
        *(*OF_ROUNDS, *PROBABILITIES, *PREDICTED),
        *(*PUBLISHED_CLIENTS, *ONLY_CURVES, *HELD_OUT, *HARM),
    )
}
"""Those of curves, and of runs beside others, by name; a curve without a declaration is a recorded number."""
SUMS = ("asked_clients", "bytes", "seconds")
"""Curves that are no scores."""
SOMETIMES = (
    *(score.name for score in (*PROBABILITIES, *PREDICTED, *FAULTS, *DRIFT, *HELD_OUT)),
    *records.OF_MESSAGES,
)
"""Names of what only some runs have."""


def curves(whole: Records) -> Columns:
    """Score every round: name -> (R,), NaN in rounds without the score, and for names that it lacks.

    A name that is neither a score's nor declared in `record_columns` is a `KeyError`.

    The names are the columns of `rounds.parquet`, the scores of `of_clients`, `PARTITION`,
    `PUBLISHED_CLIENTS` (means over one round's clients), `TRAINING` and `ONLY_CURVES`; of runs with
    attackers, moved or held-out clients also `disturbances.FAULTS`, `DRIFT`, `HELD_OUT`; `asked_clients`, the
    number of clients that were to train; `bytes`, sent since the start, up and down; and `seconds` since the
    start, as without the round cache.
    """
    parts = score_partitions(whole.clients["cluster"], whole.clients["true_cluster"])
    sent_R = (whole.rounds["bytes_down"] + whole.rounds["bytes_up"]).astype(np.float64)
    return Columns(
        whole.round_R.shape,
        {
            **{name: np.asarray(values_R, np.float64) for name, values_R in whole.rounds.items()},
            **compute_scores(of_clients(whole.clients), whole.clients),
            **compute_scores((*PUBLISHED_CLIENTS, *TRAINING, *ONLY_CURVES), whole.clients),
            **disturbances.score_disturbances(whole.clients, whole.held_out_RH),
            **{score.name: np.array([part[score.name] for part in parts], np.float64) for score in PARTITION},
            "asked_clients": whole.clients["asked"].sum(axis=1),
            "bytes": np.cumsum(sent_R),
            "seconds": np.cumsum(whole.seconds_R),
        },
        {*(column.name for column in EVERY_COLUMN["rounds"]), *SOMETIMES},
    )


def own_numbers(of_run: Iterable[str]) -> tuple[str, ...]:
    """Return the names of a run's curves that its algorithm's entry declares: nothing here does."""
    declared = {column.name for column in EVERY_COLUMN["rounds"]}
    return tuple(name for name in of_run if name not in {*declared, *DECLARED, *SOMETIMES, *SUMS})


ALL_ROUNDS = range(1, maxsize)


def score_round(round_row: Mapping[str, Any], client_rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Score one round from its row of `rounds.parquet` and its K rows of `clients.parquet`.

    Returns name -> number, None where there is none: the columns of `rounds.parquet`, the scores of
    `OF_ROUNDS`, `published_gf1`, and those of `PROBABILITIES`, `PREDICTED`, `FAULTS` and `HELD_OUT` that the
    run has.
    """
    return _score_at(records.records_of_rows(round_row, client_rows), 0)


def score_rounds(
    run_folder: Path, numbers: range = ALL_ROUNDS, known: Mapping[int, Mapping[str, Any]] = {}
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (round, scores) of the recorded rounds among `numbers`, as `score_round` returns them.

    Scores of rounds that are `known` are not computed.

    Raises:
        RecordsError: if there are no records.
    """
    whole = records.read_records(run_folder)
    for index, number in enumerate(whole.round_R.tolist()):
        if number in numbers:
            yield number, known[number] if number in known else _score_at(whole, index)


def score_run(run_folder: Path, published: str | None = None) -> dict[str, Any]:
    """Score a run, finished or not; `published` is what the papers' tables call its algorithm.

    Returns name -> number, None where there is none. Scores of the partition are of the last round, those of
    the clusters' models of `evaluated_round`, the last one in which they were tested; scores of attackers and
    moved clients are their last values; the published ones are means over all rounds and clients, None of
    local models that were tested on the server's set in the last round only.

    Raises:
        RecordsError: if there are no records.
    """
    whole = records.read_records(run_folder)
    labels_RK, truth_RK = whole.clients["cluster"], whole.clients["true_cluster"]
    score = "personalised_r2" if "personalised_r2" in whole.clients else "personalised_accuracy"
    tested = np.flatnonzero(~np.isnan(whole.clients[score]).all(axis=1))
    parts = score_partitions(labels_RK, truth_RK)
    clients = _clients(whole, int(tested[-1]) if len(tested) else -1)
    of_all = Columns((labels_RK.size,), {name: values.ravel() for name, values in whole.clients.items()})
    published_means = _numbers(compute_scores(PUBLISHED_CLIENTS, of_all))
    if _some_rounds_lack_server_tests(whole.clients):
        published_means |= {score.name: nan for score in PUBLISHED_CLIENTS if score.needs == LOCAL_SERVER}
    return finite(
        {
            "rounds": len(whole.round_R),
            "silhouette": last(whole.rounds["silhouette"]),
            "evaluated_round": int(whole.round_R[tested[-1]]) if len(tested) else None,
            **parts[-1],
            **{
                f"mean_{name}": float(np.mean([part[name] for part in parts]))
                for name in ("ari", "ami", "homogeneity", "completeness")
            },
            **asdict(clustering(labels_RK, truth_RK, whole.rounds["clustered"])),
            **_numbers(compute_scores(of_clients(clients), clients)),
            **asdict(published_clustering(labels_RK, truth_RK, published)),
            **published_means,
            **{
                name: last(values_R)
                for name, values_R in disturbances.score_disturbances(
                    whole.clients, whole.held_out_RH
                ).items()
            },
        }
    )


def _some_rounds_lack_server_tests(clients: Columns) -> bool:
    """Return whether local models were tested in some rounds on their clients' own sets only."""
    own_R, server_R = (
        ~np.isnan(clients[f"{test}_accuracy"]).all(axis=1) for test in ("local_own", LOCAL_SERVER)
    )
    return bool((own_R & ~server_R).any())


def _score_at(whole: Records, index: int) -> dict[str, Any]:
    clients = _clients(whole, index)
    of_faults = FAULTS if ATTACKER in clients else ()
    of_held_out = HELD_OUT if whole.held_out_RH.size else ()
    return finite(
        {
            **{name: values_R[index].item() for name, values_R in whole.rounds.items()},
            **score_partition(clients["cluster"][0], clients["true_cluster"][0]),
            **_numbers(compute_scores(of_clients(clients), clients)),
            "published_gf1": mean(clients["local_server_f1_union"]).item(),
            **_numbers(compute_scores((*TRAINING, *of_faults), clients)),
            **_numbers(compute_scores(of_held_out, whole.held_out_RH[index : index + 1])),
        }
    )


def _clients(whole: Records, index: int) -> Columns:
    """Return the columns of one round, shape (1, K)."""
    columns = {name: values_RK[[index]] for name, values_RK in whole.clients.items()}
    return Columns((1, len(whole.truth_K)), columns)


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    return {name: value.item() for name, value in scores.items()}
