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
from fedgrid.tracking.arrays import compute_scores, finite, last
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
from fedgrid.tracking.scoring.disturbances import DRIFT, FAULTS, HELD_OUT
from fedgrid.tracking.scoring.partitions import (
    PARTITION,
    clustering,
    published_clustering,
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
"""Declared scores of curves, and of runs compared with others, by name; other curves are recorded numbers."""
SUMS = ("asked_clients", "bytes", "seconds")
"""Curves that are no scores."""
VERSION = 1
"""Version of what `score_run` computes: one more if a score changes; `scores.json` of others is outdated."""
SOMETIMES = (
    *(score.name for score in (*PROBABILITIES, *PREDICTED, *FAULTS, *DRIFT, *HELD_OUT)),
    *records.OF_MESSAGES,
)
"""Names of scores and numbers that only some runs have."""


def by_round(whole: Records) -> dict[str, Sequence[Any]]:
    """Score every round by itself: name -> R numbers, NaN in rounds without the score.

    This is the one place where a score of a round is computed. The names are the numbers of `whole.rounds`,
    the scores of `OF_ROUNDS` and `PUBLISHED_CLIENTS` (means over one round's clients), and those of
    `PROBABILITIES`, `PREDICTED`, `FAULTS` and `HELD_OUT` that the run has.
    """
    parts = score_partitions(whole.clients["cluster"], whole.clients["true_cluster"])
    return {
        **whole.rounds,
        **compute_scores((*of_clients(whole.clients), *PUBLISHED_CLIENTS, *TRAINING), whole.clients),
        **disturbances.score_disturbances(whole.clients, whole.held_out_RH),
        **{score.name: [part[score.name] for part in parts] for score in PARTITION},
    }


def curves(whole: Records) -> Columns:
    """Compute the scores of `by_round` and those that need the rounds before, each of shape (R,), by name.

    The latter are `ONLY_CURVES`; of runs with moved clients also `disturbances.DRIFT`; `asked_clients`, the
    number of clients that were to train; `bytes`, sent since the start, up and down; and `seconds` since the
    start, as without the round cache. A name that is neither a score's nor declared in `record_columns` is a
    `KeyError`.
    """
    sent_R = (whole.rounds["bytes_down"] + whole.rounds["bytes_up"]).astype(np.float64)
    return Columns(
        whole.round_R.shape,
        {
            **{name: np.asarray(values_R, np.float64) for name, values_R in by_round(whole).items()},
            **compute_scores(ONLY_CURVES, whole.clients),
            **disturbances.score_drift(whole.clients),
            "asked_clients": whole.clients["asked"].sum(axis=1),
            "bytes": np.cumsum(sent_R),
            "seconds": np.cumsum(whole.seconds_R),
        },
        {*(column.name for column in EVERY_COLUMN["rounds"]), *SOMETIMES},
    )


def own_numbers(of_run: Iterable[str]) -> tuple[str, ...]:
    """Find the curves that an algorithm's entry declares, which are neither scores nor columns of ours."""
    declared = {column.name for column in EVERY_COLUMN["rounds"]}
    return tuple(name for name in of_run if name not in {*declared, *DECLARED, *SOMETIMES, *SUMS})


def score_rounds(run_folder: Path, after: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (round, scores) of the recorded rounds after one: the numbers of `by_round`, None for NaN.

    Raises:
        RecordsError: if there are no records.
    """
    whole = records.read_records(run_folder).after(after)
    scores = by_round(whole) if len(whole.round_R) else {}
    for index, number in enumerate(whole.round_R.tolist()):
        yield number, finite({name: _number(values_R[index]) for name, values_R in scores.items()})


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
    scores: dict[str, Any] = {**by_round(whole), **disturbances.score_drift(whole.clients)}
    # Tests may be every few rounds only: the scores of models are of the last round with a test.
    score = "personalised_r2" if "personalised_r2" in whole.clients else "personalised_accuracy"
    tested = np.flatnonzero(~np.isnan(whole.clients[score]).all(axis=1))
    evaluated = int(tested[-1]) if len(tested) else -1
    # The published means are over all rows of rounds and clients at once: a round counts by its tested
    # clients.
    of_all = Columns((labels_RK.size,), {name: values.ravel() for name, values in whole.clients.items()})
    published_means = compute_scores(PUBLISHED_CLIENTS, of_all)
    if _some_rounds_lack_server_tests(whole.clients):
        # A published mean is over all rounds, and the last round alone would be a mean of other rounds.
        published_means |= {score.name: nan for score in PUBLISHED_CLIENTS if score.needs == LOCAL_SERVER}
    found: dict[str, Any] = {
        "rounds": len(whole.round_R),
        "silhouette": last(whole.rounds["silhouette"]),
        "evaluated_round": int(whole.round_R[evaluated]) if len(tested) else None,
        **{score.name: scores[score.name][-1] for score in PARTITION},
        **{
            f"mean_{name}": float(np.mean(scores[name]))
            for name in ("ari", "ami", "homogeneity", "completeness")
        },
        **clustering(labels_RK, truth_RK, whole.rounds["clustered"]),
        **{score.name: scores[score.name][evaluated] for score in of_clients(whole.clients)},
        **asdict(published_clustering(labels_RK, truth_RK, published)),
        **published_means,
        **{
            score.name: last(scores[score.name])
            for score in (*HELD_OUT, *FAULTS, *DRIFT)
            if score.name in scores
        },
    }
    return finite({name: _number(value) for name, value in found.items()})


def _some_rounds_lack_server_tests(clients: Columns) -> bool:
    """Check whether local models were tested in some rounds on their clients' own sets only."""
    own_R, server_R = (
        ~np.isnan(clients[f"{test}_accuracy"]).all(axis=1) for test in ("local_own", LOCAL_SERVER)
    )
    return bool((own_R & ~server_R).any())


def _number(value: Any) -> Any:
    """Convert a number of NumPy's to Python's own."""
    return value.item() if isinstance(value, np.generic | np.ndarray) else value
