"""What a round leaves in the records: its row, its clients' rows, its times, its warnings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedgrid.engine.federation.clients.process import own_peak, total_megabytes
from fedgrid.engine.federation.partition.scenarios import CENTRALISED
from fedgrid.engine.federation.record_names import (
    COUNTS,
    GLOBAL_TESTS,
    MEMBERS,
    MESSAGE,
    MESSAGE_BYTES,
    SCORES,
    TESTS,
)
from fedgrid.engine.federation.round import metrics
from fedgrid.engine.federation.training.confusion import scores

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Diagnostics, State
    from fedgrid.algorithms.updates.updates import Updates
    from fedgrid.engine.federation.clients.client_round import ClientRound, Stopwatch
    from fedgrid.engine.federation.clients.messages import TrainReport
    from fedgrid.engine.federation.round.federation import Federation
    from fedgrid.engine.federation.round.model_tests import ModelTests
    from fedgrid.engine.federation.round.plan import Plan
    from fedgrid.engine.federation.training.confusion import Counts


@dataclass(frozen=True)
class RoundRecord:
    """The rows of one round; `record_columns` declares their columns."""

    round: Mapping[str, Any]
    clients: Sequence[Mapping[str, Any]]
    timing: Mapping[str, Any]
    warnings: tuple[str, ...]
    """Lines for `log.txt`; `round` has their number."""


def round_row(
    federation: Federation,
    plan: Plan,
    reports: Sequence[TrainReport],
    updates: Updates,
    state: State,
    diagnostics: Diagnostics,
) -> dict[str, Any]:
    """Return the row of `rounds.parquet`; `state` is that after the round."""
    bytes_down, bytes_up = _traffic(federation, plan, reports)
    outcome = metrics.RoundOutcome(
        updates,
        plan.state,
        state,
        diagnostics,
        bytes_down,
        bytes_up,
        excluded=len(_excluded(reports)),
    )
    row: dict[str, Any] = {
        "round": plan.round_index + 1,
        **metrics.values(outcome, metrics.ROUND_NUMBERS),
        **metrics.own_values(diagnostics.metrics, federation.numbers),
        **plan.ledger.of_round(),
    }
    if COUNTS in federation.columns:
        row[COUNTS] = diagnostics.counts
    if MESSAGE in federation.columns:
        row |= dict(zip(MESSAGE_BYTES, (plan.meeting.up, sum(plan.meeting.encoder)), strict=True))
    if CENTRALISED in federation.columns:
        row |= metrics.values(outcome, metrics.CENTRALISED_NUMBERS)
    return row


def client_rows(
    federation: Federation,
    plan: Plan,
    reports: Sequence[TrainReport],
    state: State,
    diagnostics: Diagnostics,
    tests: ModelTests,
) -> list[dict[str, Any]]:
    """Return the rows of `clients.parquet`, by client, null where it was not trained or not tested.

    `state` is that after the round.
    """
    sent, parts = {report.client: report for report in reports}, _parts(plan, reports)
    columns, spent = _test_columns(federation, reports, tests), plan.ledger.of_clients(state.labels_K)
    rows = []
    for client, label in enumerate(state.labels_K.tolist()):
        report, part = sent.get(client), parts.get(client, "not joined")
        row = {
            "round": plan.round_index + 1,
            "client": client,
            "cluster": label,
            "true_cluster": int(federation.truth_K[client]),
            "part": part,
            "placed": diagnostics.placed.get(client),
            "excluded": part == "excluded",
            "train_images": federation.train_images_K[client],
            "test_images": federation.test_images_K[client],
            "train_loss": report.train_loss if report else None,
            "train_accuracy": report.train_accuracy if report else None,
            "update_norm": report.update_norm if report else None,
        }
        if client in diagnostics.members:
            row[MEMBERS] = list(diagnostics.members[client])
        rows.append({**row, **columns[client], **spent[client]})
    federation.changes.note(rows, plan.round_index)
    return rows


def _test_columns(
    federation: Federation, reports: Sequence[TrainReport], tests: ModelTests
) -> list[dict[str, Any]]:
    """Return the columns of each client's tests; a test that several clients share is scored once."""
    local = {report.client: (report.local, report.local_server) for report in reports}
    names = (*TESTS, *GLOBAL_TESTS) if federation.evaluation.global_model else TESTS
    by_client: list[Mapping[str, Counts | None]] = [
        {**dict(zip(TESTS, local.get(client, ()), strict=False)), **tests.get(client, {})}
        for client in range(len(federation.truth_K))
    ]
    distinct = {id(counts): counts for given in by_client for counts in given.values() if counts is not None}
    results = dict(zip(distinct, scores(list(distinct.values())), strict=True))
    nothing = dict.fromkeys(SCORES)
    return [
        {
            f"{test}_{score}": value
            for test in names
            for score, value in results.get(id(given.get(test)), nothing).items()
        }
        for given in by_client
    ]


def timing_row(run_id: str, plan: Plan, work: ClientRound, watch: Stopwatch) -> dict[str, Any]:
    """Return the row of `timings.parquet` at the round's end."""
    slowest = max(work.trained, key=lambda report: report.seconds, default=None)
    peaks = [own_peak(), *(report.peak_memory for report in work.trained)]
    seconds = watch.worked
    return {
        "round": plan.round_index + 1,
        "seconds": seconds,
        "train_seconds": watch.training,
        **watch.steps,
        "slowest_client": slowest and slowest.client,
        "slowest_client_seconds": slowest and slowest.seconds,
        "peak_memory_mb": total_megabytes(peaks),
        "computed_by": work.computed_by or run_id,
        "reached_clients": work.num_reached,
        "trained_clients": len(work.trained),
        "waited_seconds": watch.waiting,
        "uncached_seconds": seconds + work.saved_seconds,
        "ended_ms": int(time.time() * 1000),
        **plan.meeting.seconds(work.trained),
    }


def warnings_of(number: int, reports: Sequence[TrainReport], diagnostics: Diagnostics) -> tuple[str, ...]:
    """Return a round's warnings in words; `number` counts from 1."""
    notes = [f"client {client} left out, its update is NaN or infinite" for client in _excluded(reports)]
    return tuple(f"round {number}: {note}" for note in (*notes, *diagnostics.warnings))


def _excluded(reports: Sequence[TrainReport]) -> list[int]:
    return [report.client for report in reports if not report.usable]


def _parts(plan: Plan, reports: Sequence[TrainReport]) -> dict[int, str]:
    """Return, by client, its part in the round, one of `record_columns.PARTS`."""
    parts = dict.fromkeys(plan.attendance.present, "not asked")
    parts |= {order.client: "spent" for order in plan.ordered}
    parts |= {order.client: "dropped" for order in plan.orders}
    return parts | {report.client: "trained" if report.usable else "excluded" for report in reports}


def _traffic(federation: Federation, plan: Plan, reports: Sequence[TrainReport]) -> tuple[int, int]:
    by_client = {
        order.client: federation.algorithm.traffic(order, federation.layout) for order in plan.orders
    }
    up = 0
    for report in reports:
        declared = by_client[report.client].up
        up += report.bytes_up if declared is None else declared
    down = sum(traffic.down for traffic in by_client.values())
    return down + plan.meeting.encoder[0], up + plan.meeting.encoder[1] + plan.meeting.up
