"""The scores of rounds and runs, computed from the records.

Those of clients are declared in `tracking.scoring.client_scores`, those of partitions in
`tracking.scoring.partitions`. Shapes: R rounds, K clients.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedgrid.tracking import records
from fedgrid.tracking.records import Columns, Records
from fedgrid.tracking.scoring import disturbances
from fedgrid.tracking.scoring.client_scores import (
    ClientScores,
    LastModels,
    PublishedClients,
    TestColumns,
    TrainScores,
    mean,
)
from fedgrid.tracking.scoring.disturbances import ATTACKER, FaultScores
from fedgrid.tracking.scoring.group import Group, computed, declared
from fedgrid.tracking.scoring.partitions import (
    ClusteringScores,
    PartitionScores,
    PublishedClustering,
    clustering,
    of_partition,
    of_partitions,
    published_clustering,
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
    faults: Mapping[str, float] = field(default_factory=dict)
    """`FaultScores`, of runs with attackers."""


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
    disturbances: Mapping[str, float] = field(default_factory=dict)
    """`FaultScores` of runs with attackers, `DriftScores` of runs whose clients move: their last values."""


def of_clients(tests: TestColumns) -> ClientScores:
    """Average the tests of one round over its clients; each column has shape (K,)."""
    return ClientScores(**_numbers(ClientScores, tests))


def curves(found: Records) -> Columns:
    """Score every round: name -> (R,), NaN in rounds without the score, and for names that do not exist.

    The names are the columns of `rounds.parquet`, the scores of `ClientScores`, `PartitionScores`,
    `PublishedClients` (means over one round's clients), `TrainScores` and `LastModels`; of runs with
    attackers or moved clients also `FaultScores` and `DriftScores`; `asked_clients`, the number of clients
    that were to train; `bytes`, sent since the start, up and down; and `seconds` since the start, as without
    the round cache.
    """
    parts = of_partitions(found.clients["cluster"], found.clients["true_cluster"])
    sent_R = (found.rounds["bytes_down"] + found.rounds["bytes_up"]).astype(np.float64)
    return Columns(
        found.round_R.shape,
        {
            **{name: np.asarray(values_R, np.float64) for name, values_R in found.rounds.items()},
            **computed(ClientScores, found.clients),
            **computed(PublishedClients, found.clients),
            **computed(TrainScores, found.clients),
            **computed(LastModels, found.clients),
            **disturbances.scores_of(found.clients),
            **{
                each.name: np.array([getattr(part, each.name) for part in parts], np.float64)
                for each in declared(PartitionScores)
            },
            "asked_clients": found.clients["asked"].sum(axis=1),
            "bytes": np.cumsum(sent_R),
            "seconds": np.cumsum(found.seconds_R),
        },
    )


def published_clients(tests: TestColumns) -> PublishedClients:
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
    found = records.read_records(run_folder)
    for index, number in enumerate(found.round_R.tolist()):
        if number not in skip:
            yield number, _at(found, index)


def of_run(run_folder: Path, *, ami_is_ari: bool = False) -> RunScores:
    """Score a run, finished or not; `ami_is_ari` as in `published_clustering`.

    Raises:
        RecordsError: if there are no records.
    """
    found = records.read_records(run_folder)
    labels_RK, truth_RK = found.clients["cluster"], found.clients["true_cluster"]
    tested = np.flatnonzero(~np.isnan(found.clients["cluster_own_accuracy"]).all(axis=1))
    last = int(tested[-1]) if len(tested) else -1
    return RunScores(
        rounds=len(found.round_R),
        silhouette=_last(found.rounds["silhouette"]),
        evaluated_round=int(found.round_R[last]) if len(tested) else None,
        clustering=clustering(labels_RK, truth_RK, found.rounds["clustered"]),
        clients=of_clients(_clients(found, last)),
        published_clustering=published_clustering(labels_RK, truth_RK, ami_is_ari=ami_is_ari),
        published_clients=published_clients(found.clients),
        disturbances={
            name: _last(values_R) for name, values_R in disturbances.scores_of(found.clients).items()
        },
    )


def _at(found: Records, index: int) -> RoundScores:
    clients = _clients(found, index)
    return RoundScores(
        recorded={name: values_R[index].item() for name, values_R in found.rounds.items()},
        partition=of_partition(clients["cluster"], clients["true_cluster"]),
        clients=of_clients(clients),
        published_gf1=float(mean(clients["local_server_f1_union"])),
        train=TrainScores(**_numbers(TrainScores, clients)),
        faults=_fault_scores(found, index),
    )


def _fault_scores(found: Records, index: int) -> dict[str, float]:
    """Return those of one round, none of a run without attackers."""
    if ATTACKER not in found.clients:
        return {}
    rows = {name: values_RK[index : index + 1] for name, values_RK in found.clients.items()}
    columns = Columns((1, len(found.truth_K)), rows)
    return {name: float(values[0]) for name, values in computed(FaultScores, columns).items()}


def _clients(found: Records, index: int) -> Columns:
    """Return the columns of one round, shape (K,)."""
    columns = {name: values_RK[index] for name, values_RK in found.clients.items()}
    return Columns(found.truth_K.shape, columns)


def _numbers(group: type[Group], tests: TestColumns) -> dict[str, float]:
    return {name: float(value) for name, value in computed(group, tests).items()}


def _last(values_R: ArrayLike) -> float:
    measured = np.asarray(values_R, np.float64)
    measured = measured[~np.isnan(measured)]
    return float(measured[-1]) if len(measured) else float("nan")
