"""One round of a federation as a function: train, test, cluster, aggregate, test, record.

The run's state goes in; its next state and the round's record come out. The order within a round is the
published one: train every client, test the local models, measure the temperature and cluster, aggregate
inside the clusters, test the new cluster models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import fsum, isfinite, nan
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.clustering.measures import compute_silhouette, has_silhouette
from fedgrid.algorithms.contract.aggregator import MEAN, Aggregator
from fedgrid.algorithms.contract.base import Diagnostics, State
from fedgrid.algorithms.contract.checks import check_global_model, check_step
from fedgrid.algorithms.contract.orders import Served
from fedgrid.algorithms.updates.source import Arrays
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.clients.client_round import ClientRound, ClientRoundFactory, OtherBits
from fedgrid.engine.federation.clients.messages import TrainReport, TrainTask
from fedgrid.engine.federation.clients.stopwatch import Stopwatch
from fedgrid.engine.federation.errors import FinalError
from fedgrid.engine.federation.plugin_calls import is_plugin_code, plugin_call_context
from fedgrid.engine.federation.record_names import GLOBAL_TESTS, SERVED_TESTS, TARGET
from fedgrid.engine.federation.round.federation import Federation, round_context
from fedgrid.engine.federation.round.plan import Plan, plan_round
from fedgrid.engine.federation.round.record import (
    ModelTests,
    RoundRecord,
    build_client_rows,
    build_round_row,
    build_timing_row,
    format_warnings,
)
from fedgrid.engine.federation.seeds import make_generator, temporary_seeds
from fedgrid.engine.federation.training.confusion import Counts, compute_scores

if TYPE_CHECKING:
    from fedgrid.engine.federation.clients.messages import Memories
    from fedgrid.engine.federation.clients.pool import Pool
    from fedgrid.engine.federation.round.run_state import RunState


def next_round(
    federation: Federation, run_state: RunState, pool: Pool, cache: ClientRoundFactory | None = None
) -> tuple[RunState, RoundRecord]:
    """Run one round: train, test, cluster, aggregate, test, record.

    Args:
        federation: What stays the same in every round of the run.
        run_state: The run after its last round; it is only read, so that a failed round can be tried again.
        pool: Trains and tests the clients.
        cache: Takes results of the round that another run has computed, and stores those computed here;
            None: everything is computed here, and nothing is stored.

    Returns:
        The run's state after the round, and the round's rows of the records.

    Raises:
        FinalError: no client has a usable update, or the algorithm breaks its contract; `run_state` is still
            good.
    """
    with round_context(run_state.rounds_done + 1, federation.seed):
        try:
            return _run_round(federation, run_state, pool, cache)
        except OtherBits:
            # A client that trained again, as for an output that the cache lacks, got other bits than those
            # behind the cached results; GPUs may do that. Results of two sets of updates must not be mixed,
            # so the whole round is computed here.
            return _run_round(federation, run_state, pool, None)


def _run_round(
    federation: Federation, run_state: RunState, pool: Pool, cache: ClientRoundFactory | None
) -> tuple[RunState, RoundRecord]:
    """Run the steps of `next_round` once, from the plan to the record."""
    watch = Stopwatch()
    plan = plan_round(federation, run_state, pool)
    if not all(order.rule.is_cached for order in plan.reached_orders):
        cache = None  # Clients remember whole models, which no other run needs.
    with _open_client_round(federation, plan, run_state, pool, cache, watch) as clients:
        # 1., 2. Train every client that replies and test its local model, in one call at the client.
        reports = clients.collect_reports()

        # 3., 4. Cluster by the updates and aggregate inside the clusters: one step of the algorithm. The
        #    round's row is made here too, since its temperature needs the distances of all updates.
        with watch.time_step("cluster_seconds"):
            updates = _collect_updates(federation, plan, clients, reports)
            state, diagnostics = _cluster_and_aggregate(federation, plan, updates)
            diagnostics = _charge_privacy(plan, reports, diagnostics)
            warnings = format_warnings(plan.round_index + 1, reports, diagnostics)
            row = build_round_row(federation, plan, reports, updates, state, diagnostics)

        # 5. Test the models that are served from now on.
        memories = clients.collect_memories()
        with watch.time_step("evaluate_seconds"):
            tests = _test_served_models(federation, plan, clients, state, {**run_state.memories, **memories})

        # Leave in the cache what other runs need of these updates, while they are at hand.
        if cache is not None and clients.trained:
            _cache_old_partition(federation, plan, clients, reports, state)

    # Move on to the next state; after the last round, clients that were held out are served.
    best = _update_best_round(federation, run_state.best, plan.round_index + 1, tests)
    after = run_state.advance_round(state, memories, plan.ledger.spent_K, best)
    if federation.is_over(after):
        with watch.time_step("evaluate_seconds"):
            state, held_out_reports, held_out_tests = _serve_held_out(federation, after, pool)
        reports, tests = [*reports, *held_out_reports], {**tests, **held_out_tests}

    # 6. Record the round. `after` keeps the clusters without those of clients that were held out.
    rows = build_client_rows(federation, plan, reports, state, diagnostics, tests)
    timing = build_timing_row(federation.run_id, plan, clients, watch)
    return after, RoundRecord(row, rows, timing, warnings)


def _open_client_round(
    federation: Federation,
    plan: Plan,
    run_state: RunState,
    pool: Pool,
    cache: ClientRoundFactory | None,
    watch: Stopwatch,
) -> ClientRound:
    """Make the round's work at the clients; nothing is trained before its results are used."""
    evaluate = federation.has_tests(plan.round_index)
    on_server = federation.tests_on_server(plan.round_index)
    # In round 1 the authors test the common initial model on the server's set, not the trained ones.
    untrained = on_server and plan.round_index == 0
    tasks = [
        TrainTask(order, plan.round_index, evaluate, on_server, untrained=untrained)
        for order in plan.reached_orders
    ]
    inputs = tasks, plan.state.models, run_state.memories, pool, plan.round_index, watch
    return ClientRound(*inputs) if cache is None else cache(*inputs)


def _collect_updates(
    federation: Federation,
    plan: Plan,
    clients: ClientRound,
    reports: Sequence[TrainReport],
    *,
    noisy: bool = True,
) -> Updates:
    """Collect the usable updates of a round, with the noise that the server adds to their means.

    Raises:
        FinalError: clients replied, but no update is finite.
    """

    def around(compute: Callable[..., object], name: str) -> AbstractContextManager[None]:
        """Seed the process's generators around the computation of a statistic by a plugin's code."""
        # Statistics are computed only where the cache lacks them. If a plugin's code drew from a generator
        # that goes on, what it draws would depend on what other runs have cached: each gets its own seed.
        if not is_plugin_code(compute):
            return nullcontext()
        return temporary_seeds(
            "cpu", make_generator(federation.seed, f"own {name}", round_index=plan.round_index)
        )

    usable = [report for report in reports if report.usable]
    if reports and not usable:
        numbers = ", ".join(str(report.client) for report in reports)
        raise FinalError(
            f"clients {numbers}, round {plan.round_index + 1}: every update is NaN or infinite, so there is "
            f"nothing to aggregate; the state of round {plan.round_index} is kept. "
            "Lower training.learning_rate, or what else of the algorithm makes steps long, such as "
            "server_learning_rate or pull"
        )
    images = {report.client: report.images for report in usable}
    steps = {report.client: report.steps for report in usable}
    return Updates(
        clients,
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


def _cluster_and_aggregate(federation: Federation, plan: Plan, updates: Updates) -> tuple[State, Diagnostics]:
    """Run the algorithm's step, which clusters and aggregates; without any update nothing changes."""
    if plan.is_out_of_budget:
        return plan.state, Diagnostics()
    if not updates.clients:
        return plan.state, Diagnostics(warnings=("every sampled client dropped out: nothing has changed",))
    rng, own_rng = (
        make_generator(federation.seed, purpose, round_index=plan.round_index)
        for purpose in ("algorithm", "own step")
    )
    with plugin_call_context(federation.algorithm, "step", own_rng):
        stepped = federation.algorithm.step(plan.state, plan.round_index, updates, rng)
    state, diagnostics = check_step(federation.algorithm, "step", stepped, len(plan.state.labels_K))
    state = federation.check_returned_state("step", state)
    metrics = {**_average_outputs(federation, plan, updates), **diagnostics.metrics}
    diagnostics = replace(diagnostics, metrics=metrics)
    if diagnostics.silhouette is None:
        labels = state.labels_K[list(updates.clients)]
        groups = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
        # With one cluster there is no silhouette. To compute distances all the same could make clients train
        # again for nothing, where the cache has no distances of this round.
        if has_silhouette(groups):
            distances_KK = federation.algorithm.distances(updates)
            diagnostics = replace(diagnostics, silhouette=compute_silhouette(distances_KK, groups))
    return state, diagnostics


def _charge_privacy(plan: Plan, reports: Sequence[TrainReport], diagnostics: Diagnostics) -> Diagnostics:
    """Charge clients for the round in its ledger, and add what it warns of to the diagnostics.

    Comes after the step: only then it is settled which means the server has released with noise.
    """
    unpaid = plan.ledger.charge_updates(plan.orders, [report.client for report in reports])
    return replace(diagnostics, warnings=(*diagnostics.warnings, *unpaid))


def _average_outputs(federation: Federation, plan: Plan, updates: Updates) -> dict[str, float]:
    """Average the declared numbers of the round that are outputs of every client's rule; NaN if empty."""

    def mean(outputs: Sequence[NDArray[Any]]) -> Arrays:
        """Average over the clients the mean of each one's array."""
        means = [output.mean(dtype=np.float64) for output in outputs if output.size]
        return {"mean": np.array([np.mean(means) if means else nan])}

    return {
        name: updates.derived(name, "own-number", mean)["mean"].item()
        for name in federation.numbers
        if all(name in order.rule.outputs for order in plan.orders)
    }


def _cache_old_partition(
    federation: Federation, plan: Plan, clients: ClientRound, reports: Sequence[TrainReport], after: State
) -> None:
    """Aggregate inside the clusters of before the step, for runs that share the round and keep them.

    Such a run takes the aggregates from the cache; without them all of its clients would train again, since
    only this run has the updates.
    """
    # The noise is this run's own; what other runs read must be without it.
    updates = _collect_updates(federation, plan, clients, reports, noisy=False)
    aggregate: Aggregator = getattr(federation.algorithm.settings, "aggregate", MEAN)
    own_rng = make_generator(federation.seed, "own aggregate", round_index=plan.round_index)
    with plugin_call_context(aggregate, "combine_groups", own_rng):
        before = plan.state
        labels_K = before.labels_K
        if not all(order.candidates == (int(labels_K[order.client]),) for order in plan.orders):
            return
        # Clusters whose models are one object count as one: other runs have not parted their clients yet.
        places = {id(model): place for place, model in enumerate(before.models)}
        old = updates.groups(np.array([places[id(before.models[label])] for label in labels_K]))
        if sorted(old.values()) != sorted(updates.groups(after.labels_K).values()):
            # The generator of the step: runs that draw nothing before they aggregate draw the same.
            rng = make_generator(federation.seed, "algorithm", round_index=plan.round_index)
            aggregate.seed_round(rng).combine_groups(updates, list(old.values()))


def _test_served_models(
    federation: Federation, plan: Plan, clients: ClientRound, state: State, memories: Memories
) -> ModelTests:
    """Test the models that are served after a round and, with `evaluation.global_model`, the one for all.

    Every client tests on its part of the server's images; those that are present, or that got an order
    (`evaluation.clients`), on their own images too.

    Args:
        federation: Says which rounds test, and what.
        plan: That of the round.
        clients: The round's work at the clients.
        state: The algorithm's, after the round.
        memories: Those of all clients, after the round.

    Returns:
        The tests by client; empty if no test is due in this round.
    """
    if not federation.has_tests(plan.round_index):
        return {}
    testing: Collection[int] = plan.attendance.present
    if federation.evaluation.clients == "asked":
        testing = [order.client for order in plan.orders]
    served = federation.find_served_models(state, plan.round_index)
    model = None
    if federation.evaluation.global_model:
        model = check_global_model(federation.algorithm, state, federation.layout.size)
    served_tests = _test_at_clients(served, clients, memories, testing)
    tests = [(SERVED_TESTS, served_tests)]
    if model is not None and served.adaptation is None and all(other is model for other in served.models):
        # The one model for all is what everybody is served: its tests are the same, and are not run twice.
        tests.append((GLOBAL_TESTS, served_tests))
    elif model is not None:
        alone = federation.add_own_buffers(Served((model,), np.zeros(len(served.model_K), np.int64)))
        tests.append((GLOBAL_TESTS, _test_at_clients(alone, clients, memories, testing)))
    return {
        client: {
            name: counts
            for names, by_client in tests
            for name, counts in zip(names, by_client[client], strict=False)
        }
        for client in served_tests
    }


def _serve_held_out(
    federation: Federation, run_state: RunState, pool: Pool
) -> tuple[State, list[TrainReport], ModelTests]:
    """Serve each client that was held out as a newcomer to the round after the last one.

    Each is alone in such a round, and starts from `run_state`, which stays as it is: which clients were held
    out together changes nothing for any of them.

    Returns:
        The state with their clusters, and their last reports and tests.
    """
    labels_K = run_state.state.labels_K.copy()
    reports = []
    tests: ModelTests = {}
    for client in sorted(federation.participation.held_out):
        # 1. A federation in which this client joins after the last round, and no other takes part.
        others = frozenset(range(len(labels_K))) - {client}
        joins = {client: run_state.rounds_done + 1}
        only = replace(federation.participation, joins=joins, held_out=others, dropout=0.0)
        alone = replace(federation, participation=only)
        state = run_state.state
        # 2. By its update the algorithm finds its cluster. If that was split later, the client trains its
        #    model and is placed again, down to the lowest level; there are at most as many as models.
        for _ in range(len(state.models)):
            plan = plan_round(alone, replace(run_state, state=state), pool)
            with _open_client_round(alone, plan, run_state, pool, None, Stopwatch()) as clients:
                state, own_reports = _place_newcomer(alone, plan, clients)
                served = alone.find_served_models(state, plan.round_index)
                own_tests = _test_at_clients(served, clients, clients.collect_memories(), [client])
            if state.labels_K[client] == plan.state.labels_K[client]:
                break
        # 3. Its last level counts.
        labels_K[client] = state.labels_K[client]
        reports += own_reports
        tests[client] = dict(zip(SERVED_TESTS, own_tests[client], strict=False))
    return replace(run_state.state, labels_K=labels_K), reports, tests


def _place_newcomer(
    federation: Federation, plan: Plan, clients: ClientRound
) -> tuple[State, list[TrainReport]]:
    """Place the round's only client in a cluster; return the state with its label, and its report if any."""
    reports = clients.collect_reports()
    if not any(report.usable for report in reports):
        return plan.state, reports
    own_rng = make_generator(federation.seed, "own place", round_index=plan.round_index)
    with plugin_call_context(federation.algorithm, "place", own_rng):
        updates = _collect_updates(federation, plan, clients, reports)
        state = federation.algorithm.place(plan.state, updates)
    return federation.check_returned_state("place", state), reports


def _test_at_clients(
    served: Served, clients: ClientRound, memories: Memories, testing: Collection[int]
) -> dict[int, tuple[Counts, ...]]:
    """Test each client's model on its own images, and on the server's where the server has all of the model.

    Args:
        served: The models, and which of them is whose.
        clients: The round's work at the clients.
        memories: Those of all clients, for models that are adapted before their test.
        testing: The clients that test on their own images.
    """
    # A model without the entries that clients keep to themselves does not work at the server.
    is_complete = served.adaptation is None or not served.adaptation.rule.personal
    tests: dict[int, tuple[Counts, ...]] = {}
    results = clients.test_models(served, memories, testing)
    for client, own in results.own.items():
        place = results.chosen.get(client, served.model_K[client])
        tests[client] = (own, results.server[place]) if is_complete else (own,)
    return tests


def _update_best_round(
    federation: Federation, before: NDArray[np.float64] | None, number: int, tests: ModelTests
) -> NDArray[np.float64] | None:
    """Find the round with the best validation score so far, and that score, shape (2,).

    It is part of the run's state, so that a resumed run ends where an uninterrupted one does. Ties go to the
    earlier round. Rounds count from 1.

    Args:
        federation: Says whether the run stops early (`training.stop_after`).
        before: The result of the round before; None: no round has a score yet.
        number: That of this round.
        tests: Those of this round.

    Returns:
        None if no round has a score yet, or the run does not stop early.
    """
    if federation.stop_after is None or (score := _average_validation_score(federation, tests)) is None:
        return before
    return np.array([number, score]) if before is None or score > before[1] else before


def _average_validation_score(federation: Federation, tests: ModelTests) -> float | None:
    """Average the clients' accuracy in a round, or minus their loss where numbers are predicted.

    None if no client has tested a model in it.
    """
    own, _ = SERVED_TESTS
    name, sign = ("loss", -1) if TARGET in federation.columns else ("accuracy", 1)
    client_scores = compute_scores([by_test[own] for by_test in tests.values() if own in by_test])
    values = [sign * each[name] for each in client_scores if isfinite(each[name])]
    # `fsum` is exact, so that the score, by which a run ends, does not depend on the order of the clients.
    return fsum(values) / len(values) if values else None
