"""FedSoft: the server on numbers, draws, the pull beside a step by hand, and SOLO without a pull."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from fedgrid import Layout, Presence, Updates
from fedgrid.algorithms.updates.source import InMemorySource
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector, read_vector
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.rivals.fedsoft import FedSoft, FedSoftSettings
from tests.helpers.small_runs import NOWHERE, config, play, rows
from tests.helpers.torch_by_hand import RATE, WHOLE, build_network, descend, read_tensors

NORMED = """
from torch import nn
from fedgrid import ModelEntry

def build(channels, height, width, num_classes):
    size = channels * height * width
    return nn.Sequential(
        nn.Flatten(), nn.Linear(size, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, num_classes)
    )

MODELS = [ModelEntry("normed", "BatchNorm and dropout", "ours", build=build)]
"""
"""Plugin with a model whose last entry is BatchNorm's count of batches."""

LAYOUT = Layout(("weight",), ((1,),), 1)


def build_updates(models, parts, images):
    """Build the replies of clients with these own models, which are sent as differences from centre 1."""
    clients = list(models)
    vectors = {client: np.array([models[client] - 1], np.float32) for client in clients}
    outputs = {"parts": {client: np.array(parts[client], np.float32) for client in clients}}
    source = InMemorySource(vectors, outputs)
    return Updates(source, LAYOUT, clients=clients, images={client: images[client] for client in clients})


def build_state(algorithm, num_clients):
    return algorithm.init(
        LAYOUT, num_clients, lambda number: np.array([1 + number], np.float32), np.random.default_rng(0)
    )


def test_centres_are_means_by_parts_and_images():
    """v of centre 0: 1 x 10 and 0.25 x 40, equal; of centre 1: 0.5 x 10 to 0.75 x 40, that is 1 to 6."""
    algorithm = FedSoft(FedSoftSettings())
    updates = build_updates({0: 3, 2: 10}, {0: [1, 0.5], 2: [0.25, 0.75]}, {0: 10, 2: 40})
    state, _ = algorithm.step(build_state(algorithm, 3), 0, updates, np.random.default_rng(0))
    assert [model.tolist() for model in state.models] == [[6.5], [9.0]]
    assert state.labels_K.tolist() == [0, 0, 1]
    assert state.arrays["importance"].tolist() == [[10, 5], [0, 0], [10, 30]]


def test_drawn_clients_train_and_all_count_in_every_second_round():
    """Clients with all of a centre's importance are drawn for it; the mean of their models is plain."""
    algorithm = FedSoft(FedSoftSettings(drawn=1, every=2, least=1e-12))
    state, present = build_state(algorithm, 3), Presence((0, 1, 2), (0,))
    rng = np.random.default_rng(0)
    steps = [{order.client: order.steps for order in algorithm.orders(state, 0, present, LAYOUT, rng)}]
    parts, images = {0: [1, 1e-12], 1: [1e-12, 1], 2: [1e-12, 1e-12]}, {0: 1, 1: 9, 2: 1}
    state, _ = algorithm.step(state, 0, build_updates({0: 1, 1: 1, 2: 1}, parts, images), rng)
    assert [model.tolist() for model in state.models] == [[1.0], [2.0]]
    assert state.arrays["drawn"].tolist() == [[True, False], [False, True], [False, False]]
    for index in (1, 2):
        steps.append({one.client: one.steps for one in algorithm.orders(state, index, present, LAYOUT, rng)})
    assert steps == [{0: 0, 1: 0, 2: 0}, {0: None, 1: None}, {0: None, 1: None, 2: 0}]
    state, _ = algorithm.step(state, 1, build_updates({0: 5, 2: 1}, parts, images), rng)
    assert [model.tolist() for model in state.models] == [[5.0], [2.0]], "client 1 dropped out"


def test_no_pull_is_solo_up_to_rounding(tmp_path):
    read = []
    for algorithm in ("solo", {"name": "fedsoft", "pull": 0}):
        run = config(algorithm, training={"rounds": 2, "momentum": 0.9})
        play(run, tmp_path)
        read.append([row["personalised_loss"] for row in rows(run, tmp_path, "clients")])
    assert read[0] == pytest.approx(read[1], rel=1e-6)


def test_first_step_counts_and_is_pulled(tmp_path):
    """From the first centre: f_i + lambda sum_s u_s (w - c_s), whose first summand is zero."""
    run = config({"name": "fedsoft", "pull": 0.5}, training={"rounds": 1, **WHOLE})
    folder = play(run, tmp_path)
    setup, _ = prepare_setup(run, NOWHERE)
    centres = [draw_initial_vector(run.model, image_inputs(1, 8, 8), 10, run.root_seed, n) for n in range(2)]
    stored = checkpoint.load_state(folder, 1)
    images, labels = read_tensors(setup.clients[0].train)
    with torch.no_grad():
        losses = [cross_entropy(build_network(each)(images), labels, reduction="none") for each in centres]
    share = float((losses[1] < losses[0]).float().mean())
    parts = np.maximum([1 - share, share], 1e-4)
    np.testing.assert_allclose(stored.state.arrays["importance"][0], parts * len(labels), rtol=1e-5)
    network = build_network(centres[0])
    descend(cross_entropy(network(images), labels), list(network.parameters()))
    own = read_vector(network) - RATE * 0.5 * parts[1] * (centres[0] - centres[1])
    np.testing.assert_allclose(stored.memories[0]["own"], own, atol=1e-6)


@pytest.mark.parametrize("drawn", [None, 2])
def test_newcomers_absent_and_held_out_clients_have_models(drawn, tmp_path):
    algorithm = {"name": "fedsoft", "drawn": drawn, "every": 3}
    run = config(algorithm, held_out=0.2, joins={1: 3}, participation=0.5)
    folder = play(run, tmp_path)
    last = [row for row in rows(run, tmp_path, "clients") if row["round"] == run.training.rounds]
    assert len(last) == run.clients
    memories = checkpoint.load_state(folder, run.training.rounds).memories
    assert all(each["own"].shape == (21_674,) for each in memories.values() if "own" in each)


def test_own_models_keep_their_buffers(tmp_path):
    """Its own training alone counts batches in a client's model; counting under the centres does not."""
    (tmp_path / "normed.py").write_text(NORMED)
    active.use_plugins([tmp_path / "normed.py"])
    try:
        run = config("fedsoft", model="normed", training={"rounds": 2, **WHOLE})
        memories = checkpoint.load_state(play(run, tmp_path), 2).memories
    finally:
        active.use_plugins()
    assert {memory["own"][-1] for memory in memories.values()} == {2}
    assert len({memory["own"][-17:-1].tobytes() for memory in memories.values()}) == run.clients
