"""What a round leaves in the records: its row, its clients' rows, its times, its warnings."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedgrid.engine.federation.clients import peak_memory
from fedgrid.engine.federation.round.metrics import RoundOutcome
from fedgrid.engine.federation.round.rows import client_row, round_row
from fedgrid.engine.federation.training.confusion import scores

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Diagnostics, State
    from fedgrid.algorithms.updates.updates import Updates
    from fedgrid.engine.federation.clients.client_round import ClientRound
    from fedgrid.engine.federation.clients.messages import TrainReport
    from fedgrid.engine.federation.clients.stopwatch import Stopwatch
    from fedgrid.engine.federation.round.federation import Federation
    from fedgrid.engine.federation.round.model_tests import ModelTests
    from fedgrid.engine.federation.round.plan import Plan
    from fedgrid.engine.federation.training.confusion import Counts, TestScores


def row_of(
    federation: Federation,
    plan: Plan,
    reports: Sequence[TrainReport],
    updates: Updates,
    state: State,
    diagnostics: Diagnostics,
) -> dict[str, Any]:
    """Return the row of `rounds.parquet`; `state` is that after the round."""
    bytes_down, bytes_up = _traffic(federation, plan, reports)
    outcome = RoundOutcome(
        updates,
        plan.state,
        state,
        diagnostics,
        bytes_down,
        bytes_up,
        excluded=len(_excluded(reports)),
        message_bytes=plan.meeting.up,
        encoder_bytes=sum(plan.meeting.encoder),
    )
    row = round_row(plan.round_index + 1, outcome, federation.columns, federation.numbers)
    return {**row, **plan.ledger.of_round()}


def client_rows(
    federation: Federation,
    plan: Plan,
    reports: Sequence[TrainReport],
    state: State,
    diagnostics: Diagnostics,
    tests: ModelTests,
) -> list[dict[str, Any]]:
    """Return the rows of `clients.parquet`, by client; `state` is that after the round."""
    sent, parts = {report.client: report for report in reports}, _parts(plan, reports)
    clients = range(len(state.labels_K))
    scored = _scored(
        {
            "local_own": sent[client].local if client in sent else None,
            "local_server": sent[client].local_server if client in sent else None,
            **tests.of(client, federation.evaluation),
        }
        for client in clients
    )
    rows = [
        client_row(
            number=plan.round_index + 1,
            client=client,
            part=parts.get(client, "not joined"),
            placed=diagnostics.placed.get(client),
            members=diagnostics.members.get(client),
            report=sent.get(client),
            labels_K=state.labels_K,
            truth_K=federation.truth_K,
            train_images=federation.train_images_K[client],
            test_images=federation.test_images_K[client],
            tests=scored[client],
        )
        for client in clients
    ]
    federation.changes.note(rows, plan.round_index)
    spent = plan.ledger.of_clients(state.labels_K)
    return [{**row, **columns} for row, columns in zip(rows, spent, strict=True)]


def _scored(tests_K: Iterable[Mapping[str, Counts | None]]) -> list[dict[str, TestScores | None]]:
    """Return the scores of each client's tests; a test that several clients share is scored once."""
    tests_K = list(tests_K)
    distinct = {id(counts): counts for tests in tests_K for counts in tests.values() if counts is not None}
    found = dict(zip(distinct, scores(list(distinct.values())), strict=True))
    return [{name: found.get(id(counts)) for name, counts in tests.items()} for tests in tests_K]


def timing_row(run_id: str, plan: Plan, work: ClientRound, watch: Stopwatch) -> dict[str, Any]:
    """Return the row of `timings.parquet` at the round's end."""
    slowest = max(work.trained, key=lambda report: report.seconds, default=None)
    peaks = [peak_memory.own_peak(), *(report.peak_memory for report in work.trained)]
    seconds = watch.worked
    return {
        "round": plan.round_index + 1,
        "seconds": seconds,
        "train_seconds": watch.training,
        **watch.steps,
        "slowest_client": slowest and slowest.client,
        "slowest_client_seconds": slowest and slowest.seconds,
        "peak_memory_mb": peak_memory.total(peaks),
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
    """Return the bytes of a round, down and up, with those of newcomers' messages."""
    by_client = {
        order.client: federation.algorithm.traffic(order, federation.layout) for order in plan.orders
    }
    up = 0
    for report in reports:
        declared = by_client[report.client].up
        up += report.bytes_up if declared is None else declared
    down = sum(traffic.down for traffic in by_client.values())
    return down + plan.meeting.encoder[0], up + plan.meeting.encoder[1] + plan.meeting.up
