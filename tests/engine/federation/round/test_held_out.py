"""Clients that never train in the federation are served after the last round; others do not notice."""

from dataclasses import replace

import numpy as np
import pytest

from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.round.federation import Federation, make_model_source
from fedgrid.engine.federation.round.next_round import next_round
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.small_runs import NOWHERE, ROUNDS, build_early_run


def play(algorithm, changed=False, never_joining=False, **given):
    """Return the held-out clients, the states and the records after each round of a run.

    The data of the first held-out client can be `changed`; or held-out ones are `never_joining` newcomers.
    """
    config = build_early_run(algorithm, held_out=0.3, **given)
    setup, truth_K = prepare_setup(config, NOWHERE)
    federation = Federation.from_config(config, build_algorithm(config), setup, truth_K)
    held_out = sorted(federation.participation.held_out)
    if never_joining:
        joins = dict.fromkeys(held_out, ROUNDS + 1)
        others = replace(federation.participation, held_out=frozenset(), joins=joins)
        federation = replace(federation, participation=others)
    if changed:
        clients = list(setup.clients)
        train = clients[held_out[0]].train
        blank = ImageSet(np.zeros_like(train.images), np.zeros_like(train.labels))
        clients[held_out[0]] = replace(clients[held_out[0]], train=blank)
        setup = replace(setup, clients=tuple(clients))
    pool = InProcessPool()
    pool.prepare(setup)
    states, records = [federation.create_first_state(make_model_source(setup))], []
    for _ in range(ROUNDS):
        state, record = next_round(federation, states[-1], pool)
        states.append(state)
        records.append(record)
    return held_out, states, records


def bits(run_state):
    """Return all that a state holds, to the bit."""
    state = run_state.state
    arrays = (*state.models, state.labels_K, *(state.arrays[name] for name in sorted(state.arrays)))
    return [array.tobytes() for array in arrays], repr(run_state.memories)


def rows_without(clients, record):
    return repr([row for row in record.clients if row["client"] not in clients]), record.round


@pytest.mark.parametrize(
    "algorithm",
    [
        *("fedavg", "scaffold", "lg-fedavg", "solo", "ladd", "ifca", "ocfl-kmeans"),
        *("evident-groups", "louvain", "flis-hc"),
    ],
)
def test_a_held_out_client_is_tested_once_and_changes_nothing_for_others(algorithm):
    held_out, states, records = play(algorithm)
    assert len(held_out) == 2
    for number, record in enumerate(records, start=1):
        for row in (record.clients[client] for client in held_out):
            assert row["part"] == "held out"
            assert (row["personalised_accuracy"] is None) == (number < ROUNDS)
    _, other_states, other_records = play(algorithm, changed=True)
    assert list(map(bits, states)) == list(map(bits, other_states))
    for record, other in zip(records, other_records, strict=True):
        assert rows_without(held_out[:1], record) == rows_without(held_out[:1], other)
    if algorithm != "scaffold":  # Which counts all that may join among its clients.
        _, without, _ = play(algorithm, never_joining=True)
        assert list(map(bits, states)) == list(map(bits, without))


def test_clients_find_the_cluster_of_their_group_or_train_alone():
    """With OCFL they wait since the split, with LADD they are met; SOLO trains the first model once."""
    for algorithm in ("ocfl-kmeans", "ladd"):
        held_out, states, records = play(
            algorithm, clients=9, split={"draws": 400}, training={"local_epochs": 3}
        )
        rows = records[-1].clients
        for row in (rows[client] for client in held_out):
            others = [r for r in rows if r["client"] not in held_out and r["cluster"] == row["cluster"]]
            assert {other["true_cluster"] for other in others} == {row["true_cluster"]}
        assert records[-1].round["clusters"] == len({r["cluster"] for r in rows})
    held_out, states, records = play("solo")
    assert (states[-1].state.models[held_out[0]] == states[0].state.models[0]).all()
    row = records[-1].clients[held_out[0]]
    assert row["personalised_accuracy"] == row["local_own_accuracy"]
