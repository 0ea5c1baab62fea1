"""The scores of clients, rounds and runs, computed from the records.

Scores named `published_...` follow Figure 2 of the OCFL journal paper as its notebooks compute it (F1 over
the union of true and predicted classes, generalisation of the local models); all others are what their names
say. Scores of partitions are in `tracking.scoring.partitions`. Shapes: R rounds, K clients.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedgrid.tracking import records
from fedgrid.tracking.records import Array, Columns, Records
from fedgrid.tracking.scoring.group import Group, computed, declared, score
from fedgrid.tracking.scoring.partitions import (
    ClusteringScores,
    PartitionScores,
    PublishedClustering,
    clustering,
    of_partition,
    of_partitions,
    published_clustering,
)

Tests: TypeAlias = Mapping[str, ArrayLike]
"""`cluster_own_accuracy` and so on: the columns of tests in the records, clients on the last axis."""


def _mean_of(column: str) -> Callable[[Tests], Array]:
    return lambda tests: mean(tests[column])


def _gap_between(one: str, other: str) -> Callable[[Tests], Array]:
    """Return a function for the mean over clients of the absolute difference of two columns."""
    return lambda tests: mean(
        np.abs(np.asarray(tests[one], np.float64) - np.asarray(tests[other], np.float64))
    )


def _least(column: str) -> Callable[[Tests], Array]:
    return lambda tests: np.fmin.reduce(np.asarray(tests[column], np.float64), axis=-1)


def _jain(column: str) -> Callable[[Tests], Array]:
    """Return a function for Jain's index of the clients with a value; all 0 is equal, too, and gives 1.

    Source: Jain, Chiu and Hawe, A quantitative measure of fairness and discrimination for resource allocation
    in shared computer systems, DEC-TR-301, 1984: (sum of x)^2 / (K * sum of x^2).
    """

    def compute(tests: Tests) -> Array:
        values = np.asarray(tests[column], np.float64)
        squares = mean(values**2)
        return np.asarray(
            np.divide(mean(values) ** 2, squares, out=np.ones(squares.shape), where=squares != 0)
        )

    return compute


OWN = "of the clusters' models on their clients' own test sets, mean over clients"
SERVER = "of the clusters' models on the server's test set, mean over clients"


@dataclass(frozen=True)
class ClientScores(Group):
    """Means over the clients of one round, computed from `Tests`; F1 is over the classes in the test set."""

    personalised_accuracy: float = score(f"Accuracy {OWN}.", _mean_of("cluster_own_accuracy"), in_mlflow=True)
    personalised_f1: float = score(
        f"Macro F1 over the classes in the test set, {OWN}.", _mean_of("cluster_own_f1_own"), in_mlflow=True
    )
    personalised_f1_union: float = score(
        f"Macro F1 over the true and predicted classes, {OWN}.", _mean_of("cluster_own_f1_union")
    )
    personalised_balanced_accuracy: float = score(
        f"Balanced accuracy {OWN}.", _mean_of("cluster_own_balanced_accuracy")
    )
    personalised_loss: float = score(f"Loss {OWN}.", _mean_of("cluster_own_loss"), in_mlflow=True)
    generalised_accuracy: float = score(
        f"Accuracy {SERVER}.", _mean_of("cluster_server_accuracy"), in_mlflow=True
    )
    generalised_f1: float = score(
        f"Macro F1 over the classes in the test set, {SERVER}.",
        _mean_of("cluster_server_f1_own"),
        in_mlflow=True,
    )
    generalised_f1_union: float = score(
        f"Macro F1 over the true and predicted classes, {SERVER}.", _mean_of("cluster_server_f1_union")
    )
    generalised_balanced_accuracy: float = score(
        f"Balanced accuracy {SERVER}.", _mean_of("cluster_server_balanced_accuracy")
    )
    generalised_loss: float = score(f"Loss {SERVER}.", _mean_of("cluster_server_loss"), in_mlflow=True)
    learning_gap: float = score(
        "Absolute difference of personalised and generalised accuracy, mean over clients.",
        _gap_between("cluster_own_accuracy", "cluster_server_accuracy"),
        in_mlflow=True,
    )
    learning_gap_f1: float = score(
        "Absolute difference of personalised and generalised F1, mean over clients.",
        _gap_between("cluster_own_f1_own", "cluster_server_f1_own"),
    )
    learning_gap_loss: float = score(
        "Absolute difference of personalised and generalised loss (cross-entropy, nats), mean over clients.",
        _gap_between("cluster_own_loss", "cluster_server_loss"),
    )
    worst_client_accuracy: float = score(
        "Least personalised accuracy of a client.", _least("cluster_own_accuracy"), in_mlflow=True
    )
    jain_index: float = score(
        "Jain's index of the clients' personalised accuracies: 1 if all are equal, 1/K if one of K has all.",
        _jain("cluster_own_accuracy"),
        in_mlflow=True,
    )


@dataclass(frozen=True)
class PublishedClients(Group):
    """The published personalisation and generalisation: means over all rounds and clients, from `Tests`.

    Before aggregation means: in the first round the initial model, which no client has trained, and later the
    locally trained one. The authors' archive has such a first row in all of its runs, ours records it so.
    """

    published_pf1: float = score(
        "F1 over the union of classes, of the cluster's model on the client's test set.",
        _mean_of("cluster_own_f1_union"),
    )
    published_gf1: float = score(
        "F1 over the union of classes, of the local model before aggregation on the server's test set.",
        _mean_of("local_server_f1_union"),
    )
    published_pa: float = score(
        "Accuracy of the cluster's model on the client's test set.", _mean_of("cluster_own_accuracy")
    )
    published_ga: float = score(
        "Accuracy of the local model before aggregation on the server's test set.",
        _mean_of("local_server_accuracy"),
    )
    published_learning_gap: float = score(
        "The notebooks' DIST: |accuracy behind PA - accuracy behind GA|, row by row.",
        _gap_between("cluster_own_accuracy", "local_server_accuracy"),
    )


@dataclass(frozen=True)
class TrainScores(Group):
    """Local training in one round, computed from the columns of `clients.parquet`."""

    train_loss: float = score(
        "Loss in local training, mean over clients.", _mean_of("train_loss"), in_mlflow=True
    )
    train_accuracy: float = score(
        "Accuracy in local training, mean over clients.", _mean_of("train_accuracy"), in_mlflow=True
    )


@dataclass(frozen=True)
class RoundScores(Group):
    """The scores of one round."""

    recorded: Mapping[str, float | int | bool]
    """The columns of `rounds.parquet`, NaN where null: `temperature`, `silhouette`, `bytes_up`, ..."""
    partition: PartitionScores
    clients: ClientScores
    published_gf1: float
    train: TrainScores


@dataclass(frozen=True)
class RunScores(Group):
    """The scores of one run, finished or not."""

    rounds: int
    silhouette: float
    """Of the last round in which it is defined."""
    evaluated_round: int | None
    """The last round in which the clusters' models were tested: `clients` is of this round."""
    clustering: ClusteringScores
    clients: ClientScores
    published_clustering: PublishedClustering
    published_clients: PublishedClients


def of_clients(tests: Tests) -> ClientScores:
    """Average the tests of one round over its clients; each column has shape (K,)."""
    return ClientScores(**_numbers(ClientScores, tests))


def curves(found: Records) -> Columns:
    """Score every round: name -> (R,), NaN in rounds without the score, and for names that do not exist.

    The names are the columns of `rounds.parquet`, the scores of `ClientScores`, `PartitionScores`,
    `PublishedClients` (means over one round's clients) and `TrainScores`, and `bytes`: sent since the start,
    up and down.
    """
    parts = of_partitions(found.clients["cluster"], found.truth_K)
    sent_R = (found.rounds["bytes_down"] + found.rounds["bytes_up"]).astype(np.float64)
    return Columns(
        found.round_R.shape,
        {
            **{name: np.asarray(values_R, np.float64) for name, values_R in found.rounds.items()},
            **computed(ClientScores, found.clients),
            **computed(PublishedClients, found.clients),
            **computed(TrainScores, found.clients),
            **{
                each.name: np.array([getattr(part, each.name) for part in parts], np.float64)
                for each in declared(PartitionScores)
            },
            "bytes": np.cumsum(sent_R),
        },
    )


def published_clients(tests: Tests) -> PublishedClients:
    """Average a run as Figure 2 did; `tests` has `cluster_own_` and `local_server_` `accuracy` and
    `f1_union`, each of shape (R, K).
    """
    rows = {name: np.asarray(values, np.float64).ravel() for name, values in tests.items()}
    return PublishedClients(**_numbers(PublishedClients, rows))


def of_round(round_row: Mapping[str, Any], client_rows: Sequence[Mapping[str, Any]]) -> RoundScores:
    """Score one round from its row of `rounds.parquet` and its K rows of `clients.parquet`."""
    return _at(records.of_rows(round_row, client_rows), 0)


def of_rounds(run_folder: Path, skip: Set[int] = frozenset()) -> Iterator[tuple[int, RoundScores]]:
    """Yield (round, scores) of the recorded rounds, except those in `skip`.

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
    return RoundScores(
        recorded={name: values_R[index].item() for name, values_R in found.rounds.items()},
        partition=of_partition(clients["cluster"], found.truth_K),
        clients=of_clients(clients),
        published_gf1=float(mean(clients["local_server_f1_union"])),
        train=TrainScores(**_numbers(TrainScores, clients)),
    )


def _numbers(group: type[Group], tests: Tests) -> dict[str, float]:
    return {name: float(value) for name, value in computed(group, tests).items()}


def _last(values_R: ArrayLike) -> float:
    measured = np.asarray(values_R, np.float64)
    measured = measured[~np.isnan(measured)]
    return float(measured[-1]) if len(measured) else float("nan")


def mean(values: ArrayLike) -> Array:
    """Return the mean over the last axis without the NaNs, NaN where there is nothing else."""
    values = np.asarray(values, np.float64)
    measured = ~np.isnan(values)
    count = measured.sum(axis=-1)
    total = np.where(measured, values, 0.0).sum(axis=-1)
    return np.asarray(np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0))
