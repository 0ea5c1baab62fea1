"""One round of a federation as a function: the run's state in, its state and a record out.

The order within a round is the published one: train every client, test the local models, measure the
temperature and cluster, aggregate inside the clusters, test the new cluster models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import fsum, isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.clustering.measures import is_defined, silhouette
from fedgrid.algorithms.contract.aggregator import MEAN, Aggregator
from fedgrid.algorithms.contract.base import Diagnostics, State
from fedgrid.algorithms.contract.checks import check_global_model, check_step
from fedgrid.algorithms.contract.orders import Order, Served
from fedgrid.algorithms.updates.source import Arrays
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.clients.client_round import ClientRound, OtherBits, RoundCache
from fedgrid.engine.federation.clients.messages import TrainReport, TrainTask
from fedgrid.engine.federation.clients.stopwatch import Stopwatch
from fedgrid.engine.federation.errors import FinalError
from fedgrid.engine.federation.own_code import is_own, own_code
from fedgrid.engine.federation.record_names import GLOBAL_TESTS, SERVED_TESTS, TARGET
from fedgrid.engine.federation.round.federation import Federation, in_round
from fedgrid.engine.federation.round.plan import Plan, plan_round
from fedgrid.engine.federation.round.record import (
    ModelTests,
    RoundRecord,
    client_rows,
    round_row,
    timing_row,
    warnings_of,
)
from fedgrid.engine.federation.seeds import generator, seeded
from fedgrid.engine.federation.training.confusion import Counts, scores

if TYPE_CHECKING:
    from fedgrid.engine.federation.clients.messages import Memories
    from fedgrid.engine.federation.clients.pool import Pool
    from fedgrid.engine.federation.round.run_state import RunState


def next_round(
    federation: Federation, run_state: RunState, pool: Pool, cache: RoundCache | None = None
) -> tuple[RunState, RoundRecord]:
    """Run one round; with `cache`, take what other runs computed of it and keep what is computed here.

    If clients that train again get other bits than those behind what was taken, as they may on a GPU, the
    whole round is computed here: all of its numbers are of the same updates.

    Raises:
        FinalError: no client has a usable update, or the algorithm breaks its contract; `run_state` is still
            good.
    """
    with in_round(run_state.rounds_done + 1, federation.seed):
        try:
            return _run(federation, run_state, pool, cache)
        except OtherBits:
            return _run(federation, run_state, pool, None)


def _run(
    federation: Federation, run_state: RunState, pool: Pool, cache: RoundCache | None
) -> tuple[RunState, RoundRecord]:
    watch = Stopwatch()
    plan = plan_round(federation, run_state, pool)
    if not all(order.rule.is_cached for order in plan.reached):
        cache = None
    with _work(federation, plan, run_state, pool, cache, watch) as work:
        reports = work.reports()
        with watch.step("cluster_seconds"):
            updates = _updates(federation, plan, work, reports)
            state, diagnostics = _step(federation, plan, updates)
            unpaid = plan.ledger.settle(plan.orders, [report.client for report in reports])
            diagnostics = replace(diagnostics, warnings=(*diagnostics.warnings, *unpaid))
            warnings = warnings_of(plan.round_index + 1, reports, diagnostics)
            row = round_row(federation, plan, reports, updates, state, diagnostics)
        memories = work.memories()
        with watch.step("evaluate_seconds"):
            tests = _run_tests(federation, plan, work, state, {**run_state.memories, **memories})
        if cache is not None and work.trained:
            # What other runs find in the cache is without this run's noise.
            without_noise = _updates(federation, plan, work, reports, noisy=False)
            aggregate = getattr(federation.algorithm.settings, "aggregate", MEAN)
            own_rng = generator(federation.seed, "own aggregate", round_index=plan.round_index)
            with own_code(aggregate, "of", own_rng):
                _cache_means_of_old_partition(plan.orders, plan.state, state, without_noise, aggregate)
    best = _best_after(federation, run_state.best, plan.round_index + 1, tests)
    after = run_state.after_round(state, memories, plan.ledger.spent_K, best)
    if federation.is_over(after):
        with watch.step("evaluate_seconds"):
            state, of_held_out, tests_of_held_out = _serve_held_out(federation, after, pool)
        reports, tests = [*reports, *of_held_out], {**tests, **tests_of_held_out}
    rows = client_rows(federation, plan, reports, state, diagnostics, tests)
    timing = timing_row(federation.run_id, plan, work, watch)
    return after, RoundRecord(row, rows, timing, warnings)


def _work(
    federation: Federation,
    plan: Plan,
    run_state: RunState,
    pool: Pool,
    cache: RoundCache | None,
    watch: Stopwatch,
) -> ClientRound:
    evaluate = federation.evaluates(plan.round_index)
    on_server = federation.tests_on_server(plan.round_index)
    untrained = on_server and plan.round_index == 0
    tasks = [
        TrainTask(order, plan.round_index, evaluate, on_server, untrained=untrained) for order in plan.reached
    ]
    inputs = tasks, plan.state.models, run_state.memories, pool, plan.round_index, watch
    return ClientRound(*inputs) if cache is None else cache(*inputs)


def _updates(
    federation: Federation,
    plan: Plan,
    work: ClientRound,
    reports: Sequence[TrainReport],
    *,
    noisy: bool = True,
) -> Updates:
    """Return the view of the usable updates, with the noise that the server adds to their means."""

    def around(compute: Callable[..., object], name: str) -> AbstractContextManager[None]:
        # What a plugin draws here must not depend on what else is cached.
        if not is_own(compute):
            return nullcontext()
        return seeded("cpu", generator(federation.seed, f"own {name}", round_index=plan.round_index))

    usable = [report for report in reports if report.usable]
    if reports and not usable:
        clients = ", ".join(str(report.client) for report in reports)
        raise FinalError(
            f"clients {clients}, round {plan.round_index + 1}: every update is NaN or infinite, so there is "
            f"nothing to aggregate; the state of round {plan.round_index} is kept. "
            "Lower training.learning_rate (or algorithm.server_learning_rate)"
        )
    images = {report.client: report.images for report in usable}
    steps = {report.client: report.steps for report in usable}
    return Updates(
        work,
        federation.layout,
        similarity_over=federation.algorithm.settings.similarity_over,
        threads=federation.threads,
        chosen={report.client: report.chosen for report in usable},
        absent=set(range(len(federation.truth_K))) - {report.client for report in reports},
        clients=[report.client for report in usable],
        images=images,
        steps=steps,
        weights={"none": None, "images": images, "batches": steps}[federation.weights],
        sampled=plan.attendance.sampled,
        held_out=federation.participation.held_out,
        noise=plan.ledger.noise if noisy else None,
        around=around,
    )


def _step(federation: Federation, plan: Plan, updates: Updates) -> tuple[State, Diagnostics]:
    """Run the algorithm's step; without any update nothing changes."""
    if plan.is_out_of_budget:
        return plan.state, Diagnostics()
    if not updates.clients:
        return plan.state, Diagnostics(warnings=("every sampled client dropped out: nothing has changed",))
    rng, own_rng = (
        generator(federation.seed, purpose, round_index=plan.round_index)
        for purpose in ("algorithm", "own step")
    )
    with own_code(federation.algorithm, "step", own_rng):
        stepped = federation.algorithm.step(plan.state, plan.round_index, updates, rng)
    state, diagnostics = check_step(federation.algorithm, "step", stepped, len(plan.state.labels_K))
    state = federation.checked("step", state)
    metrics = {**_means_of_outputs(federation, plan, updates), **diagnostics.metrics}
    diagnostics = replace(diagnostics, metrics=metrics)
    if diagnostics.silhouette is None:
        labels = state.labels_K[list(updates.clients)]
        groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
        if is_defined(groups):  # Else a metric that is not cached would have clients train for nothing.
            distances_KK = federation.algorithm.distances(updates)
            diagnostics = replace(diagnostics, silhouette=silhouette(distances_KK, groups))
    return state, diagnostics


def _means_of_outputs(federation: Federation, plan: Plan, updates: Updates) -> dict[str, float]:
    """Return the declared numbers of the round that are outputs of every client's rule; NaN if empty."""

    def mean(outputs: Sequence[NDArray[Any]]) -> Arrays:
        means = [output.mean(dtype=np.float64) for output in outputs if output.size]
        return {"mean": np.array([np.mean(means) if means else nan])}

    return {
        name: updates.derived(name, "own-number", mean)["mean"].item()
        for name in federation.numbers
        if all(name in order.rule.outputs for order in plan.orders)
    }


def _cache_means_of_old_partition(
    orders: Sequence[Order], before: State, after: State, updates: Updates, aggregate: Aggregator
) -> None:
    """Compute the means, or other aggregates, that runs need which keep the old partition.

    Only this run has the updates. Clusters that start from one model count as one: other runs have not parted
    their clients yet.
    """
    labels_K = before.labels_K
    if not all(order.candidates == (int(labels_K[order.client]),) for order in orders):
        return
    places = {id(model): place for place, model in enumerate(before.models)}
    old = updates.groups(np.array([places[id(before.models[label])] for label in labels_K]))
    if sorted(old.values()) != sorted(updates.groups(after.labels_K).values()):
        aggregate.of(updates, list(old.values()))


def _run_tests(
    federation: Federation, plan: Plan, work: ClientRound, state: State, memories: Memories
) -> ModelTests:
    """Test the models that are served after a round and, if asked, the one for all; none if no test is due.

    Every client tests on the server's images; those that are present, or were asked, on their own too.
    `state` and `memories` are those after the round.
    """
    if not federation.evaluates(plan.round_index):
        return {}
    testing: Collection[int] = plan.attendance.present
    if federation.evaluation.clients == "asked":
        testing = [order.client for order in plan.orders]
    served = federation.served_after(state, plan.round_index)
    model = None
    if federation.evaluation.global_model:
        model = check_global_model(federation.algorithm, state, federation.layout.size)
    of_served = _tests(served, work, memories, testing)
    tests = [(SERVED_TESTS, of_served)]
    if model is not None and served.adaptation is None and all(other is model for other in served.models):
        tests.append((GLOBAL_TESTS, of_served))
    elif model is not None:
        alone = federation.served(Served((model,), np.zeros(len(served.model_K), np.int64)))
        tests.append((GLOBAL_TESTS, _tests(alone, work, memories, testing)))
    return {
        client: {
            name: counts
            for names, by_client in tests
            for name, counts in zip(names, by_client[client], strict=False)
        }
        for client in of_served
    }


def _serve_held_out(
    federation: Federation, run_state: RunState, pool: Pool
) -> tuple[State, list[TrainReport], ModelTests]:
    """Serve each client that was held out as a newcomer to the round after the last one.

    By its update the algorithm finds its place; in a cluster that was split later it trains again, for the
    next level. Each starts from `run_state`, which stays as it is. Returns its state with their clusters, and
    their last reports and tests.
    """
    labels_K = run_state.state.labels_K.copy()
    reports = []
    tests: ModelTests = {}
    for client in sorted(federation.participation.held_out):
        others = frozenset(range(len(labels_K))) - {client}
        joins = {client: run_state.rounds_done + 1}
        only = replace(federation.participation, joins=joins, held_out=others, dropout=0.0)
        alone = replace(federation, participation=only)
        state = run_state.state
        for _ in range(len(state.models)):  # As many levels as there can be.
            plan = plan_round(alone, replace(run_state, state=state), pool)
            with _work(alone, plan, run_state, pool, None, Stopwatch()) as work:
                state, own = _placed(alone, plan, work)
                served = alone.served_after(state, plan.round_index)
                of_client = _tests(served, work, work.memories(), [client])
            if state.labels_K[client] == plan.state.labels_K[client]:
                break
        labels_K[client] = state.labels_K[client]
        reports += own
        tests[client] = dict(zip(SERVED_TESTS, of_client[client], strict=False))
    return replace(run_state.state, labels_K=labels_K), reports, tests


def _placed(federation: Federation, plan: Plan, work: ClientRound) -> tuple[State, list[TrainReport]]:
    """Return the state in which the round's only client has its place, and its report if it trained."""
    reports = work.reports()
    if not any(report.usable for report in reports):
        return plan.state, reports
    own_rng = generator(federation.seed, "own place", round_index=plan.round_index)
    with own_code(federation.algorithm, "place", own_rng):
        state = federation.algorithm.place(plan.state, _updates(federation, plan, work, reports))
    return federation.checked("place", state), reports


def _tests(
    served: Served, work: ClientRound, memories: Memories, testing: Collection[int]
) -> dict[int, tuple[Counts, ...]]:
    """Return each client's tests of its model: on its own images, and on the server's."""
    # Without the entries that clients keep to themselves, what the server has is no model.
    is_whole = served.adaptation is None or not served.adaptation.rule.personal
    tests: dict[int, tuple[Counts, ...]] = {}
    tested = work.test(served, memories, testing)
    for client, own in tested.own.items():
        place = tested.chosen.get(client, served.model_K[client])
        tests[client] = (own, tested.server[place]) if is_whole else (own,)
    return tests


def _best_after(
    federation: Federation, before: NDArray[np.float64] | None, number: int, tests: ModelTests
) -> NDArray[np.float64] | None:
    """Return the round with the best validation score so far, from 1, and that score, shape (2,).

    It is part of the run's state, so that a resumed run ends where an uninterrupted one does. Ties go to the
    earlier round; None: there is none yet, or the run does not stop early (`training.stop_after`).
    """
    if federation.stop_after is None or (score := _validation_score(federation, tests)) is None:
        return before
    return np.array([number, score]) if before is None or score > before[1] else before


def _validation_score(federation: Federation, tests: ModelTests) -> float | None:
    """Return the mean over the clients that tested a round of their accuracy, or of minus their loss where
    numbers are predicted; None if no client did."""
    own, _ = SERVED_TESTS
    name, sign = ("loss", -1) if TARGET in federation.columns else ("accuracy", 1)
    of_clients = scores([by_test[own] for by_test in tests.values() if own in by_test])
    values = [sign * one[name] for one in of_clients if isfinite(one[name])]
    return fsum(values) / len(values) if values else None
