"""Every score of a client, a round and a run, from the records.

Source of the `published_...` ones: Figure 2 of the OCFL journal paper, as its notebooks compute it (F1 over
the union of true and predicted classes, generalisation of the local models); everything else is what the
name says. Scores of partitions are in `tracking.scoring.partitions`. Shapes: R rounds, K clients.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedgrid.tracking import records
from fedgrid.tracking.records import Array, Records
from fedgrid.tracking.scoring.partitions import (
    ClusteringScores,
    Group,
    PartitionScores,
    PublishedClustering,
    clustering,
    of_partition,
    of_partitions,
    published_clustering,
)

VIEWS = {"personalised": "cluster_own", "generalised": "cluster_server"}
"""Both of the cluster's model after aggregation: on the client's own test set, on the server's."""
MEASURES = {
    "accuracy": "accuracy",
    "f1": "f1_own",
    "f1_union": "f1_union",
    "balanced_accuracy": "balanced_accuracy",
    "loss": "loss",
}


@dataclass(frozen=True)
class ClientScores(Group):
    """Means over the clients of one round; F1 is over the classes that the test set holds."""

    personalised_accuracy: float
    personalised_f1: float
    personalised_f1_union: float
    personalised_balanced_accuracy: float
    personalised_loss: float
    generalised_accuracy: float
    generalised_f1: float
    generalised_f1_union: float
    generalised_balanced_accuracy: float
    generalised_loss: float
    learning_gap: float
    """Mean over the clients of |personalised - generalised| accuracy."""
    learning_gap_f1: float
    worst_client_accuracy: float
    """Least personalised accuracy."""


@dataclass(frozen=True)
class PublishedClients(Group):
    """The published personalisation and generalisation: means over all rounds and clients."""

    published_pf1: float
    """F1 over the union of classes, of the cluster's model on the client's test set."""
    published_gf1: float
    """F1 over the union of classes, of the local model before aggregation on the server's test set."""
    published_pa: float
    published_ga: float
    published_learning_gap: float
    """The notebooks' DIST: |accuracy behind PA - accuracy behind GA|, row by row."""


@dataclass(frozen=True)
class RoundScores(Group):
    """What is shown of one round."""

    temperature: float
    silhouette: float
    """Of the partition, on the distances that the algorithm looks at; needs no truth."""
    partition: PartitionScores
    clients: ClientScores
    published_gf1: float
    train_loss: float
    train_accuracy: float
    excluded: int
    warnings: int
    bytes_down: int
    bytes_up: int


@dataclass(frozen=True)
class RunScores(Group):
    """What is shown of one run, finished or not."""

    rounds: int
    silhouette: float
    """Of the last round in which there is one."""
    evaluated_round: int | None
    """The last round in which the aggregated models were tested: `clients` is of this one."""
    clustering: ClusteringScores
    clients: ClientScores
    published_clustering: PublishedClustering
    published_clients: PublishedClients


def of_clients(tests: Mapping[str, ArrayLike]) -> ClientScores:
    """Average one round over its clients; `tests` has `cluster_own_accuracy` and so on, of shape (K,)."""
    return ClientScores(**{name: float(value) for name, value in _over_clients(tests).items()})


def _over_clients(tests: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Average over the clients, the last axis; the names are those of `ClientScores`."""
    means = {
        f"{view}_{name}": mean(tests[f"{test}_{column}"])
        for view, test in VIEWS.items()
        for name, column in MEASURES.items()
    }
    return {
        **means,
        "learning_gap": _gap(tests, "cluster_own_accuracy", "cluster_server_accuracy"),
        "learning_gap_f1": _gap(tests, "cluster_own_f1_own", "cluster_server_f1_own"),
        "worst_client_accuracy": np.fmin.reduce(
            np.asarray(tests["cluster_own_accuracy"], np.float64), axis=-1
        ),
    }


def curves(found: Records) -> dict[str, Array]:
    """Score every round: name -> (R,), NaN in rounds without it.

    The names are those of `ClientScores`, of `PartitionScores` and of `PublishedClients` (means over one
    round's clients), `temperature`, `silhouette`, `train_loss`, `train_accuracy`, and `bytes`: sent
    since the start, up and down.
    """
    parts = of_partitions(found.clients["cluster"], found.truth_K)
    sent_R = (found.rounds["bytes_down"] + found.rounds["bytes_up"]).astype(np.float64)
    return {
        **_over_clients(found.clients),
        **_published_over_clients(found.clients),
        **{
            field.name: np.array([getattr(part, field.name) for part in parts], np.float64)
            for field in fields(PartitionScores)
        },
        "temperature": np.asarray(found.rounds["temperature"], np.float64),
        "silhouette": np.asarray(found.rounds["silhouette"], np.float64),
        "train_loss": mean(found.clients["train_loss"]),
        "train_accuracy": mean(found.clients["train_accuracy"]),
        "bytes": np.cumsum(sent_R),
    }


def published_clients(tests: Mapping[str, ArrayLike]) -> PublishedClients:
    """Average a run as Figure 2 did; `tests` has `cluster_own_` and `local_server_` `accuracy` and
    `f1_union`, each of shape (R, K).
    """
    rows = {name: np.asarray(values, np.float64).ravel() for name, values in tests.items()}
    return PublishedClients(**{name: float(value) for name, value in _published_over_clients(rows).items()})


def _published_over_clients(tests: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Average over the last axis; the names are those of `PublishedClients`."""
    return {
        "published_pf1": mean(tests["cluster_own_f1_union"]),
        "published_gf1": mean(tests["local_server_f1_union"]),
        "published_pa": mean(tests["cluster_own_accuracy"]),
        "published_ga": mean(tests["local_server_accuracy"]),
        "published_learning_gap": _gap(tests, "cluster_own_accuracy", "local_server_accuracy"),
    }


def of_round(round_row: Mapping[str, Any], client_rows: Sequence[Mapping[str, Any]]) -> RoundScores:
    """Score one round from its row of `rounds.parquet` and its K rows of `clients.parquet`."""
    return _at(records.of_rows(round_row, client_rows), 0)


def of_rounds(run_folder: Path, skip: Set[int] = frozenset()) -> Iterator[tuple[int, RoundScores]]:
    """Yield (round, scores) of the recorded rounds but those to `skip`.

    Raises:
        RecordsError: if there are no records.
    """
    found = records.read(run_folder)
    for index, number in enumerate(found.round_R.tolist()):
        if number not in skip:
            yield number, _at(found, index)


def of_run(run_folder: Path, *, ami_is_ari: bool = False) -> RunScores:
    """Score a run, finished or not; `ami_is_ari` as in `published_clustering`.

    Raises:
        RecordsError: if there are no records.
    """
    found = records.read(run_folder)
    labels_RK, truth_K = found.clients["cluster"], found.truth_K
    tested = np.flatnonzero(~np.isnan(found.clients["cluster_own_accuracy"]).all(axis=1))
    last = int(tested[-1]) if len(tested) else -1
    return RunScores(
        rounds=len(found.round_R),
        silhouette=_last(found.rounds["silhouette"]),
        evaluated_round=int(found.round_R[last]) if len(tested) else None,
        clustering=clustering(labels_RK, truth_K, found.rounds["clustered"]),
        clients=of_clients({name: values_RK[last] for name, values_RK in found.clients.items()}),
        published_clustering=published_clustering(labels_RK, truth_K, ami_is_ari=ami_is_ari),
        published_clients=published_clients(found.clients),
    )


def _at(found: Records, index: int) -> RoundScores:
    clients = {name: values_RK[index] for name, values_RK in found.clients.items()}
    row = {name: values_R[index].item() for name, values_R in found.rounds.items()}
    return RoundScores(
        temperature=row["temperature"],
        silhouette=row["silhouette"],
        partition=of_partition(clients["cluster"], found.truth_K),
        clients=of_clients(clients),
        published_gf1=_mean(clients["local_server_f1_union"]),
        train_loss=_mean(clients["train_loss"]),
        train_accuracy=_mean(clients["train_accuracy"]),
        excluded=row["excluded"],
        warnings=row["warnings"],
        bytes_down=row["bytes_down"],
        bytes_up=row["bytes_up"],
    )


def _last(values_R: ArrayLike) -> float:
    measured = np.asarray(values_R, np.float64)
    measured = measured[~np.isnan(measured)]
    return float(measured[-1]) if len(measured) else float("nan")


def _mean(values: ArrayLike) -> float:
    return float(mean(np.ravel(values)))


def mean(values: ArrayLike) -> Array:
    """Average over the last axis what was measured, NaN where nothing was."""
    values = np.asarray(values, np.float64)
    measured = ~np.isnan(values)
    count = measured.sum(axis=-1)
    total = np.where(measured, values, 0.0).sum(axis=-1)
    return np.asarray(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))


def _gap(tests: Mapping[str, ArrayLike], one: str, other: str) -> Array:
    return mean(np.abs(np.asarray(tests[one], np.float64) - np.asarray(tests[other], np.float64)))
