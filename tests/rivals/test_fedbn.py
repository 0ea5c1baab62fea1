"""FedBN: Li et al. 2021; BatchNorm layers stay with the clients."""

import numpy as np
import pytest
import torch

from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.source import Layout
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import build_blank, build_layout, write_vector
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.small_runs import NOWHERE, config, play, rows, warnings
from tests.helpers.torch_by_hand import read_tensors

NORMED = """
from torch import nn
from fedgrid import ModelEntry

def build(channels, height, width, num_classes):
    body = nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2)
    return nn.Sequential(nn.Flatten(), *body, nn.Linear(8, num_classes))

MODELS = [ModelEntry("normed", "with BatchNorm and dropout", "ours", build=build)]
"""
INPUTS = image_inputs(1, 8, 8)


@pytest.fixture
def normed(tmp_path):
    path = tmp_path / "normed.py"
    path.write_text(NORMED)
    active.use_plugins([path])
    yield "normed"
    active.use_plugins()


def load_model(folder, number):
    return checkpoint.load_state(folder, number).state.models[0]


def test_model_without_norms_gives_the_bytes_of_fedavg_and_a_warning(tmp_path):
    fedbn, fedavg = (config(name, participation=0.5, training={"rounds": 2}) for name in ("fedbn", "fedavg"))
    models = [load_model(play(run, tmp_path), 2) for run in (fedbn, fedavg)]
    np.testing.assert_array_equal(*models)
    np.testing.assert_array_equal(
        *([row["personalised_loss"] for row in rows(run, tmp_path, "clients")] for run in (fedbn, fedavg))
    )
    assert len(warnings(fedbn, tmp_path)) == 1
    assert "no BatchNorm layer" in warnings(fedbn, tmp_path)[0]


def test_norms_are_found_by_what_they_are_with_their_statistics():
    names, shapes = ("a.weight", "shortcut.weight", "b.weight", "shortcut.mean"), ((2,), (3,), (2,), (3,))
    layout = Layout(names, shapes, 7, norm_layers=("shortcut",))
    algorithm = create_algorithm("fedbn")
    state = algorithm.init(layout, 2, lambda _: np.zeros(10, np.float32), None)
    assert algorithm.served(state, layout).adaptation.rule.personal == ((2, 5), (7, 10))


def test_all_but_the_norms_is_averaged_and_clients_are_tested_with_their_own(normed, tmp_path):
    """In round 1 clients train as under FedAvg, as all have the initial norms."""
    given = {"model": normed, "participation": 0.5, "training": {"rounds": 2}}
    run = config("fedbn", **given)
    folder = play(run, tmp_path)
    average = load_model(play(config("fedavg", **given), tmp_path), 1)
    layout = build_layout(normed, INPUTS, 10)
    own = np.zeros(layout.size, bool)
    for start, stop in layout.ranges(layout.norm_layers):
        own[start:stop] = True
    assert own.sum() == 4 * 8 + 1
    np.testing.assert_array_equal(load_model(folder, 1)[~own], average[~own])
    # Scale 1, shift 0, mean 0, variance 1, no batches.
    np.testing.assert_array_equal(load_model(folder, 2)[own], np.repeat([1, 0, 0, 1, 0], [8, 8, 8, 8, 1]))
    memories = checkpoint.load_state(folder, 1).memories
    clients = [row for row in rows(run, tmp_path, "clients") if row["round"] == 1]
    assert sorted(memories) == [row["client"] for row in clients if row["part"] == "trained"]
    np.testing.assert_allclose(
        np.mean([memories[one]["personal"] for one in memories], 0), average[own], atol=1e-6
    )
    setup, _ = prepare_setup(run, NOWHERE)
    for row in clients:
        model = load_model(folder, 1).copy()
        model[own] = memories[row["client"]]["personal"] if row["client"] in memories else model[own]
        module = build_blank(normed, INPUTS, 10).eval()
        write_vector(module, model)
        images, labels = read_tensors(setup.clients[row["client"]].test)
        loss = torch.nn.functional.cross_entropy(module(images), labels).item()
        assert row["personalised_loss"] == pytest.approx(loss, rel=1e-5)
    assert rows(run, tmp_path, "clients")[0]["generalised_loss"] is None
