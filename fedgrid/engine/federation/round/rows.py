"""The rows that a round leaves in the records; `record_columns` declares their columns."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedgrid.algorithms.contract.base import Labels
from fedgrid.engine.federation.clients.messages import TrainReport
from fedgrid.engine.federation.partition.scenarios import CENTRALISED
from fedgrid.engine.federation.record_names import COUNTS, MEMBERS, MESSAGE, MESSAGE_BYTES, SCORES
from fedgrid.engine.federation.round import metrics
from fedgrid.engine.federation.round.metrics import RoundOutcome
from fedgrid.engine.federation.training.confusion import TestScores


@dataclass(frozen=True)
class RoundRecord:
    """The rows of one round."""

    round: Mapping[str, Any]
    clients: Sequence[Mapping[str, Any]]
    timing: Mapping[str, Any]
    warnings: tuple[str, ...]
    """Lines for `log.txt`; `round` has their number."""


def round_row(
    number: int, outcome: RoundOutcome, columns: Collection[str] = (), numbers: Collection[str] = ()
) -> dict[str, Any]:
    """Return the row of `rounds.parquet`.

    `number` counts from 1, `columns` are as in `schemas`, `numbers` those of the algorithm's entry.
    """
    own: dict[str, Any] = dict(metrics.own_values(outcome.diagnostics.metrics, numbers))
    if COUNTS in columns:
        own[COUNTS] = outcome.diagnostics.counts
    if MESSAGE in columns:
        own |= {name: getattr(outcome, name) for name in MESSAGE_BYTES}
    if CENTRALISED in columns:
        own |= metrics.values(outcome, metrics.CENTRALISED_NUMBERS)
    return {"round": number, **metrics.values(outcome, metrics.ROUND_NUMBERS), **own}


def client_row(
    *,
    number: int,
    client: int,
    part: str,
    placed: str | None = None,
    members: Sequence[int] | None = None,
    report: TrainReport | None,
    labels_K: Labels,
    truth_K: Labels,
    train_images: int,
    test_images: int,
    tests: Mapping[str, TestScores | None],
) -> dict[str, Any]:
    """Return a client's row of `clients.parquet`, null where it was not trained or not tested.

    `part` is one of `PARTS`. `placed` is the reason for the cluster of a client that was
    absent from the clustering. `members` are written where the algorithm has that column.
    """
    row: dict[str, Any] = {
        "round": number,
        "client": client,
        "cluster": int(labels_K[client]),
        "true_cluster": int(truth_K[client]),
        "part": part,
        "placed": placed,
        "excluded": part == "excluded",
        "train_images": train_images,
        "test_images": test_images,
        "train_loss": report.train_loss if report else None,
        "train_accuracy": report.train_accuracy if report else None,
        "update_norm": report.update_norm if report else None,
    }
    for test, result in tests.items():
        row |= _score_columns(test, result)
    return row if members is None else row | {MEMBERS: list(members)}


def _score_columns(test: str, result: TestScores | None) -> dict[str, Any]:
    if result is None:
        return {f"{test}_{name}": None for name in SCORES}
    values = {
        "loss": result.loss,
        "accuracy": result.accuracy,
        "f1_union": result.f1_union,
        "f1_own": result.f1_own,
        "balanced_accuracy": result.balanced_accuracy,
        "recall": result.recall_L.tolist(),
    }
    return {f"{test}_{name}": value for name, value in values.items()}
