"""The records of a round: its row, its clients' rows, its times and its warnings.

`fedgrid.record_columns` declares the columns of these numbers. The rest follows from there: the curve of
`tracking.scoring.scores`, the MLflow metric, and the row of the reference's page of scores.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fedgrid.algorithms.clustering.measures import compute_temperature
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.clients.process import measure_own_peak, sum_megabytes
from fedgrid.engine.federation.partition.scenarios import CENTRALISED
from fedgrid.engine.federation.record_names import (
    COUNTS,
    GLOBAL_TESTS,
    MEMBERS,
    MESSAGE,
    MESSAGE_BYTES,
    OWN_MOMENTS,
    PROBABILITY_SCORES,
    R2,
    SCORES,
    SERVED_TESTS,
    TARGET,
    TESTS,
)
from fedgrid.engine.federation.training.confusion import compute_scores

if TYPE_CHECKING:
    from fedgrid.algorithms.contract.base import Diagnostics, State
    from fedgrid.engine.federation.clients.client_round import ClientRound
    from fedgrid.engine.federation.clients.messages import TrainReport
    from fedgrid.engine.federation.clients.stopwatch import Stopwatch
    from fedgrid.engine.federation.round.federation import Federation
    from fedgrid.engine.federation.round.plan import Plan
    from fedgrid.engine.federation.training.confusion import Counts


ModelTests: TypeAlias = "dict[int, dict[str, Counts]]"
"""Client -> name of the test, as in the records -> its result; without what was not tested."""


@dataclass(frozen=True)
class RoundRecord:
    """The rows of one round; `record_columns` declares their columns."""

    round: Mapping[str, Any]
    """The row of `rounds.parquet`."""
    clients: Sequence[Mapping[str, Any]]
    """The rows of `clients.parquet`, by client."""
    timing: Mapping[str, Any]
    """The row of `timings.parquet`."""
    warnings: tuple[str, ...]
    """Lines for `log.txt`; `round` has their number."""


def build_round_row(
    federation: Federation,
    plan: Plan,
    reports: Sequence[TrainReport],
    updates: Updates,
    state: State,
    diagnostics: Diagnostics,
) -> dict[str, Any]:
    """Build the row of `rounds.parquet`.

    Args:
        federation: Says which columns the run has.
        plan: That of the round.
        reports: Those of the clients that replied.
        updates: The usable updates.
        state: The algorithm's, after the round.
        diagnostics: What its step reported.
    """
    bytes_down, bytes_up = _count_traffic(federation, plan, reports)
    excluded = len(_find_excluded(reports))
    diverged = len(_find_diverged(reports))
    row: dict[str, Any] = {
        "round": plan.round_index + 1,
        "temperature": compute_temperature(updates.cosine_distances_KK) if updates.clients else None,
        # Clients that are held out are in no cluster yet; their label is only a place holder.
        "clusters": len(np.unique(np.delete(state.labels_K, sorted(federation.participation.held_out)))),
        "clustered": diagnostics.clustered,
        "bytes_down": bytes_down,
        "bytes_up": bytes_up,
        "excluded": excluded,
        "warnings": excluded + diverged + len(diagnostics.warnings),
        "mean_norm": diagnostics.mean_norm,
        "max_norm": diagnostics.max_norm,
        "silhouette": diagnostics.silhouette,
        **_select_own_numbers(diagnostics.metrics, federation.numbers),
        **plan.ledger.build_round_columns(),
    }
    if COUNTS in federation.columns:
        row[COUNTS] = diagnostics.counts
    if MESSAGE in federation.columns:
        row |= dict(
            zip(MESSAGE_BYTES, (plan.exchange.bytes_up, sum(plan.exchange.encoder_bytes)), strict=True)
        )
    if CENTRALISED in federation.columns:
        row |= _measure_single_update(updates, plan.state, state)
    return row


def _measure_single_update(updates: Updates, before: State, after: State) -> dict[str, float]:
    """Measure the update and the weights of a run in which one client holds everything.

    `grids.epsilons.rules` says what these numbers are for. Norms of the only client's update are as Sattler's
    test takes them of a mean.
    """
    [update] = updates.vectors()
    layout = updates.layout
    norms = {over: Updates({0: update}, layout, similarity_over=over) for over in ("parameters", "state")}
    sizes = [
        float(np.abs(model[: layout.num_parameters]).sum(dtype=np.float64))
        for model in (*before.models, *after.models)
    ]
    return {
        "update_l2": norms["parameters"].mean_norm,
        "update_l2_state": norms["state"].mean_norm,
        "weights_l1_change": sizes[1] - sizes[0],
    }


def _select_own_numbers(returned: Mapping[str, float], declared: Collection[str]) -> dict[str, float | None]:
    """Select the numbers that an algorithm's entry declares, None for one that is missing or not finite.

    Raises:
        ValueError: the algorithm returned one that its entry does not declare.
    """
    if unknown := [name for name in returned if name not in declared]:
        raise ValueError(
            f"Diagnostics.metrics has '{unknown[0]}', which the numbers of the algorithm's AlgorithmEntry do "
            f"not declare; declared: {', '.join(declared) or 'none'}"
        )
    numbers = {name: float(returned.get(name, nan)) for name in declared}
    return {name: value if isfinite(value) else None for name, value in numbers.items()}


def build_client_rows(
    federation: Federation,
    plan: Plan,
    reports: Sequence[TrainReport],
    state: State,
    diagnostics: Diagnostics,
    tests: ModelTests,
) -> list[dict[str, Any]]:
    """Build the rows of `clients.parquet`, by client, null where a client was not trained or not tested.

    Args:
        federation: Says which columns the run has.
        plan: That of the round.
        reports: Those of the clients that replied.
        state: The algorithm's, after the round.
        diagnostics: What its step reported.
        tests: Tests of the served models, by client.
    """
    sent = {report.client: report for report in reports}
    parts = _name_parts(federation, plan, reports)
    columns = _build_test_columns(federation, reports, tests)
    spent = plan.ledger.build_client_columns(state.labels_K)
    rows = []
    truth_K = federation.truth_K.tolist()
    for client, label in enumerate(state.labels_K.tolist()):
        report = sent.get(client)
        part = parts.get(client, "not joined")
        row = {
            "round": plan.round_index + 1,
            "client": client,
            "cluster": label,
            "true_cluster": truth_K[client],
            "part": part,
            "placed": diagnostics.placed.get(client),
            "excluded": part == "excluded",
            "train_images": federation.train_images_K[client],
            "test_images": federation.test_images_K[client],
            "train_loss": report.train_loss if report else None,
            "train_accuracy": report.train_accuracy if report else None,
            "update_norm": report.update_norm if report else None,
        }
        if TARGET in federation.columns:
            own = tests.get(client, {}).get(SERVED_TESTS[0])
            row |= dict.fromkeys(OWN_MOMENTS)
            if own is not None and own.moments is not None:
                row |= dict(
                    zip(OWN_MOMENTS, np.divide(own.moments, own.confusion.sum()).tolist(), strict=True)
                )
        if client in diagnostics.members:
            row[MEMBERS] = list(diagnostics.members[client])
        rows.append({**row, **columns[client], **spent[client]})
    federation.unusual_clients.annotate_rows(rows, plan.round_index)
    return rows


def _build_test_columns(
    federation: Federation, reports: Sequence[TrainReport], tests: ModelTests
) -> list[dict[str, Any]]:
    """Build the columns of each client's tests; a test that several clients share is scored once."""
    local = {report.client: (report.local, report.local_server) for report in reports}
    names = (*TESTS, *GLOBAL_TESTS) if federation.evaluation.global_model else TESTS
    by_client: list[Mapping[str, Counts | None]] = [
        {**dict(zip(TESTS, local.get(client, ()), strict=False)), **tests.get(client, {})}
        for client in range(len(federation.truth_K))
    ]
    # By identity: clients of one cluster with one test set hold the very same counts, and scoring is the
    # costly part.
    distinct = {id(counts): counts for given in by_client for counts in given.values() if counts is not None}
    results = dict(zip(distinct, compute_scores(list(distinct.values())), strict=True))
    predicted = (R2,) if TARGET in federation.columns else ()
    further = PROBABILITY_SCORES if federation.evaluation.probabilities else predicted
    nothing = dict.fromkeys((*SCORES, *further))

    def build_columns(given: Mapping[str, Counts | None]) -> dict[str, Any]:
        """Fill the columns of one client, null for tests that it has not made."""
        return {
            f"{test}_{score}": value
            for test in names
            for score, value in results.get(id(given.get(test)), nothing).items()
        }

    untested = build_columns({})  # Of thousands of clients a round may test a few.
    return [build_columns(given) if given else untested for given in by_client]


def build_timing_row(run_id: str, plan: Plan, work: ClientRound, watch: Stopwatch) -> dict[str, Any]:
    """Build the row of `timings.parquet` at the round's end.

    Args:
        run_id: That of this run.
        plan: That of the round.
        work: The round's work at the clients.
        watch: It has measured the round's steps.
    """
    slowest = max(work.trained, key=lambda report: report.seconds, default=None)
    peaks = [measure_own_peak(), *(report.peak_memory for report in work.trained)]
    seconds = watch.working_seconds
    return {
        "round": plan.round_index + 1,
        "seconds": seconds,
        "train_seconds": watch.training,
        **watch.steps,
        "slowest_client": slowest and slowest.client,
        "slowest_client_seconds": slowest and slowest.seconds,
        "peak_memory_mb": sum_megabytes(peaks),
        "computed_by": work.computed_by or run_id,
        "reached_clients": work.num_reached,
        "trained_clients": len(work.trained),
        "waited_seconds": watch.waiting,
        # What the round would have taken without the cache: it makes runs comparable that shared rounds.
        "uncached_seconds": seconds + work.saved_seconds,
        "ended_ms": int(time.time() * 1000),
        **plan.exchange.average_seconds(work.trained),
    }


def format_warnings(number: int, reports: Sequence[TrainReport], diagnostics: Diagnostics) -> tuple[str, ...]:
    """Format a round's warnings as lines for the log; `number` counts from 1."""
    notes = [f"client {client} left out, its update is NaN or infinite" for client in _find_excluded(reports)]
    notes += [
        f"client {client}: what it remembers, such as a model of its own, is NaN or infinite"
        for client in _find_diverged(reports)
    ]
    return tuple(f"round {number}: {note}" for note in (*notes, *diagnostics.warnings))


def _find_excluded(reports: Sequence[TrainReport]) -> list[int]:
    """List the clients whose update is unusable."""
    return [report.client for report in reports if not report.usable]


def _find_diverged(reports: Sequence[TrainReport]) -> list[int]:
    """List the clients whose update is usable, but not what they remember."""
    return [report.client for report in reports if report.usable and not report.has_finite_memory]


def _name_parts(federation: Federation, plan: Plan, reports: Sequence[TrainReport]) -> dict[int, str]:
    """Name each client's part in the round, one of `record_names.PARTS`."""
    # Later lines are narrower and win: present, ordered, able to pay, replied.
    parts = dict.fromkeys(plan.attendance.present, "not asked")
    parts |= {order.client: "spent" for order in plan.orders_before_budget}
    parts |= {order.client: "dropped" for order in plan.orders}
    parts |= {report.client: "trained" if report.usable else "excluded" for report in reports}
    return parts | dict.fromkeys(federation.participation.held_out, "held out")


def _count_traffic(federation: Federation, plan: Plan, reports: Sequence[TrainReport]) -> tuple[int, int]:
    """Count the bytes that the server sends and receives in a round, messages and encoder included."""
    by_client = {
        order.client: federation.algorithm.traffic(order, federation.layout) for order in plan.orders
    }
    up = 0
    for report in reports:
        # An algorithm may declare what its order's reply takes, as where it needs less than the engine sends.
        declared = by_client[report.client].up
        up += report.bytes_up if declared is None else declared
    down = sum(traffic.down for traffic in by_client.values())
    return down + plan.exchange.encoder_bytes[0], up + plan.exchange.encoder_bytes[1] + plan.exchange.bytes_up
