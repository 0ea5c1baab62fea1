"""The scores of rounds and runs, computed from the records.

Those of clients are declared in `tracking.scoring.client_scores`, those of partitions in
`tracking.scoring.partitions`. Shapes: R rounds, K clients.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.record_columns import EVERY_COLUMN
from fedgrid.tracking import records
from fedgrid.tracking.arrays import compute_scores, last_number, to_finite
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
    select_client_scores,
)
from fedgrid.tracking.scoring.disturbances import DRIFT, FAULTS, HELD_OUT
from fedgrid.tracking.scoring.partitions import (
    PARTITION,
    score_clustering,
    score_partitions,
    score_published_clustering,
)

ROUND_SCORES = (*PARTITION, *CLIENTS, *TRAINING)
"""Scores that every round has."""
DECLARED = {
    score.name: score
    for score in (
        *(*ROUND_SCORES, *PROBABILITIES, *PREDICTED),
        *(*PUBLISHED_CLIENTS, *ONLY_CURVES, *HELD_OUT, *HARM),
    )
}
"""Declared scores of curves, and of runs compared with others, by name; other curves are recorded numbers."""
RUNNING_SUMS = ("asked_clients", "bytes", "seconds")
"""Curves that are no scores."""
SCORING_VERSION = 1
"""Version of what `score_run` computes: one more if a score changes; `scores.json` of others is outdated."""
OCCASIONAL = (
    *(score.name for score in (*PROBABILITIES, *PREDICTED, *FAULTS, *DRIFT, *HELD_OUT)),
    *records.MESSAGE_COLUMNS,
)
"""Names of scores and numbers that only some runs have."""


def score_by_round(run_records: Records) -> dict[str, Sequence[Any]]:
    """Score every round by itself: name -> R numbers, NaN in rounds without the score.

    This is the one place where a score of a round is computed. The names are the numbers of `whole.rounds`,
    the scores of `ROUND_SCORES` and `PUBLISHED_CLIENTS` (means over one round's clients), and those of
    `PROBABILITIES`, `PREDICTED`, `FAULTS` and `HELD_OUT` that the run has.
    """
    parts = score_partitions(run_records.clients["cluster"], run_records.clients["true_cluster"])
    return {
        **run_records.rounds,
        **compute_scores(
            (*select_client_scores(run_records.clients), *PUBLISHED_CLIENTS, *TRAINING), run_records.clients
        ),
        **disturbances.score_disturbances(run_records.clients, run_records.held_out_RH),
        **{score.name: [part[score.name] for part in parts] for score in PARTITION},
    }


def compute_curves(run_records: Records) -> Columns:
    """Compute the scores of `score_by_round` and those that need the rounds before, each of shape (R,), by
    name.

    The latter are `ONLY_CURVES`; of runs with moved clients also `disturbances.DRIFT`; `asked_clients`, the
    number of clients that were to train; `bytes`, sent since the start, up and down; and `seconds` since the
    start, as without the round cache. A name that is neither a score's nor declared in `record_columns` is a
    `KeyError`.
    """
    sent_R = (run_records.rounds["bytes_down"] + run_records.rounds["bytes_up"]).astype(np.float64)
    return Columns(
        run_records.round_R.shape,
        {
            **{
                name: np.asarray(values_R, np.float64)
                for name, values_R in score_by_round(run_records).items()
            },
            **compute_scores(ONLY_CURVES, run_records.clients),
            **disturbances.score_drift(run_records.clients),
            "asked_clients": run_records.clients["asked"].sum(axis=1),
            "bytes": np.cumsum(sent_R),
            "seconds": np.cumsum(run_records.seconds_R),
        },
        {*(column.name for column in EVERY_COLUMN["rounds"]), *OCCASIONAL},
    )


def find_own_numbers(curve_names: Iterable[str]) -> tuple[str, ...]:
    """Find the curves that an algorithm's entry declares, which are neither scores nor columns of ours."""
    declared = {column.name for column in EVERY_COLUMN["rounds"]}
    return tuple(
        name for name in curve_names if name not in {*declared, *DECLARED, *OCCASIONAL, *RUNNING_SUMS}
    )


def score_rounds(run_folder: Path, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (round, scores) of the recorded rounds after one: the numbers of `score_by_round`, None for NaN.

    Raises:
        RecordsError: if there are no records.
    """
    run_records = records.read_records(run_folder).rounds_after(after)
    scores = score_by_round(run_records) if len(run_records.round_R) else {}
    for index, number in enumerate(run_records.round_R.tolist()):
        yield (
            number,
            to_finite({name: _to_python_number(values_R[index]) for name, values_R in scores.items()}),
        )


def score_run(run_folder: Path, published: str | None = None) -> dict[str, Any]:
    """Score a run, finished or not; `published` is what the papers' tables call its algorithm.

    Returns name -> number, None where there is none. Scores of the partition are of the last round, those of
    the clusters' models of `evaluated_round`, the last one in which they were tested; scores of attackers and
    moved clients are their last values; the published ones are means over all rounds and clients, None of
    local models that were tested on the server's set in the last round only.

    Raises:
        RecordsError: if there are no records.
    """
    run_records = records.read_records(run_folder)
    labels_RK, truth_RK = run_records.clients["cluster"], run_records.clients["true_cluster"]
    scores: dict[str, Any] = {**score_by_round(run_records), **disturbances.score_drift(run_records.clients)}
    # Tests may be every few rounds only: the scores of models are of the last round with a test.
    score = "personalised_r2" if "personalised_r2" in run_records.clients else "personalised_accuracy"
    tested = np.flatnonzero(~np.isnan(run_records.clients[score]).all(axis=1))
    evaluated = int(tested[-1]) if len(tested) else -1
    # The published means are over all rows of rounds and clients at once: a round counts by its tested
    # clients.
    flat_columns = Columns(
        (labels_RK.size,), {name: values.ravel() for name, values in run_records.clients.items()}
    )
    published_means = compute_scores(PUBLISHED_CLIENTS, flat_columns)
    if _some_rounds_lack_server_tests(run_records.clients):
        # A published mean is over all rounds, and the last round alone would be a mean of other rounds.
        published_means |= {score.name: nan for score in PUBLISHED_CLIENTS if score.needs == LOCAL_SERVER}
    run_scores: dict[str, Any] = {
        "rounds": len(run_records.round_R),
        "silhouette": last_number(run_records.rounds["silhouette"]),
        "evaluated_round": int(run_records.round_R[evaluated]) if len(tested) else None,
        **{score.name: scores[score.name][-1] for score in PARTITION},
        **{
            f"mean_{name}": float(np.mean(scores[name]))
            for name in ("ari", "ami", "homogeneity", "completeness")
        },
        **score_clustering(labels_RK, truth_RK, run_records.rounds["clustered"]),
        **{score.name: scores[score.name][evaluated] for score in select_client_scores(run_records.clients)},
        **asdict(score_published_clustering(labels_RK, truth_RK, published)),
        **published_means,
        **{
            score.name: last_number(scores[score.name])
            for score in (*HELD_OUT, *FAULTS, *DRIFT)
            if score.name in scores
        },
    }
    return to_finite({name: _to_python_number(value) for name, value in run_scores.items()})


def _some_rounds_lack_server_tests(clients: Columns) -> bool:
    """Check whether local models were tested in some rounds on their clients' own sets only."""
    own_R, server_R = (
        ~np.isnan(clients[f"{test}_accuracy"]).all(axis=1) for test in ("local_own", LOCAL_SERVER)
    )
    return bool((own_R & ~server_R).any())


def _to_python_number(value: Any) -> Any:
    """Convert a number of NumPy's to Python's own."""
    return value.item() if isinstance(value, np.generic | np.ndarray) else value
