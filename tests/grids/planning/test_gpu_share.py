"""The GPU share of a client actor: the arithmetic by hand, and real training on a GPU's stand-in."""

from dataclasses import replace
from pathlib import Path

import pytest
from torch import nn

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import EvaluateTask, TrainTask
from fedgrid.engine.federation.inputs import Inputs, image_inputs
from fedgrid.engine.federation.models.registry import MODELS, ModelEntry
from fedgrid.engine.federation.training import evaluation
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.runtime.clients.placement import Node, PlacementRequest
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.grids.planning.gpu_share import (
    CONTEXT_BYTES,
    SPARE_FACTOR,
    add_gpu_share,
    compute_actor_bytes,
    compute_training_bytes,
)
from fedgrid.grids.planning.workload import NEUTRAL_SETTINGS, Workload, find_workload
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.ray_cluster.cluster import compute_placements
from tests.helpers.gpu_cases import Case, build_start, build_worker
from tests.helpers.gpu_stand_in import StandIn

GB = 10**9
NOWHERE = Path("nowhere")
PAPER = load_grid("paper", {}, (), NOWHERE).runs
SMALL = complete_config({"algorithm": "fedavg"}, NOWHERE)


def a_node(*, gigabytes, gpus=1):
    return Node(64, gpus, 400 * GB, gigabytes * GB)


def workload(model="linear", inputs=Inputs("numbers", (5,)), **training):  # noqa: B008
    settings = {"batch_size": 128, "optimizer": "sgd", **training}
    return Workload(model, inputs, 3, LocalTraining(**NEUTRAL_SETTINGS, **settings))


@pytest.fixture
def own(monkeypatch):
    """Return a function that registers an own model."""

    def register(name, build):
        monkeypatch.setitem(MODELS, name, ModelEntry(name, "for tests", "ours", build))

    return register


LINEAR = 128 * (5 * 4 + 3 * 4 + 8) + 4 + 2 * 128 * 5 * 4
"""Kept of 128 rows of 5 numbers and 3 classes: the rows, log-probabilities, labels, and the sum of weights;
the rows are the largest, twice."""


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ({}, 2 * 4 * 18 + LINEAR),
        ({"momentum": 0.9}, 3 * 4 * 18 + LINEAR),
        ({"optimizer": "adam"}, 4 * 4 * 18 + LINEAR),
        ({"stacked": 2}, 2 * (2 * 4 * 18 + LINEAR)),
        ({"precision": "bfloat16"}, 2 * 4 * 18 + LINEAR / 2 + 2 * 18),
        # Three tensors of a test of 128 rows are larger than what one row needs in training.
        ({"batch_size": 1}, 2 * 4 * 18 + 3 * 128 * 5 * 4),
    ],
    ids=["sgd", "momentum", "adam", "stacked", "bfloat16", "tests"],
)
def test_linear_model_of_15_weights_and_3_biases(training, expected):
    assert compute_training_bytes(workload(**training)) == expected


def test_convolution_keeps_its_input_and_its_output_once(own):
    """Two 3x3 kernels on 4x4 pixels give 2x2x2 numbers: one tensor that ReLU and the linear layer keep."""

    def build(channels, height, width, num_classes):
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, num_classes))

    own("convolution", build)
    kept = 128 * (16 * 4 + 8 * 4 + 3 * 4 + 8) + 4
    parameters = 2 * (9 + 1) + 3 * (8 + 1)
    expected = 2 * 4 * parameters + kept + 2 * 128 * 16 * 4
    assert compute_training_bytes(workload("convolution", image_inputs(1, 4, 4))) == expected


def test_state_of_a_large_model_is_read_as_two_copies():
    """1,000 numbers to 1,000 classes: what 128 rows keep is small beside a copy of the weights."""
    load = replace(workload(inputs=Inputs("numbers", (1000,)), batch_size=128), num_classes=1000)
    assert compute_training_bytes(load) == 4 * 4 * 1001 * 1000


def test_share_has_the_context_and_all_images_of_the_run_and_a_quarter_to_spare():
    assert compute_actor_bytes(2 * GB, GB) == SPARE_FACTOR * (CONTEXT_BYTES + 3 * GB)


def share_of(runs, *nodes, request=PlacementRequest()):  # noqa: B008
    return add_gpu_share(runs, nodes, request, NOWHERE).least_gpu_share


def test_share_is_one_of_the_smallest_gpu_and_at_least_a_twentieth():
    """0.75 GB and a little: 0.1 of 8 GB, and less than 0.05 of 24 GB."""
    small, large = a_node(gigabytes=8), a_node(gigabytes=24, gpus=4)
    assert share_of([SMALL], large) == 0.05
    assert share_of([SMALL], large, small, Node(64, 0)) == 0.1


def test_users_share_stands_and_nothing_is_reckoned_without_a_gpu_that_is_known():
    for request in (PlacementRequest(gpus_per_client=0.5), PlacementRequest(gpus_per_client=0)):
        assert add_gpu_share(PAPER, [a_node(gigabytes=16)], request, NOWHERE) == request
    for node in (Node(64, 0), Node(64, 1)):
        assert add_gpu_share(PAPER, [node], PlacementRequest(), NOWHERE) == PlacementRequest()


def test_run_that_may_not_fit_has_a_whole_gpu_and_a_warning(capsys):
    large = complete_config({"algorithm": "fedavg", "training": {"batch_size": 10**6}}, NOWHERE)
    assert share_of([SMALL, large], a_node(gigabytes=1)) == 1
    line = " ".join(capsys.readouterr().err.split())
    for part in ("digitnet with batches of 1000000", "the smallest GPU has 1.0", "training.batch_size"):
        assert part in line


def test_model_that_looks_at_values_is_not_reckoned_and_that_is_said(own, capsys):
    class Looks(nn.Linear):
        def forward(self, batch):
            return super().forward(batch.flatten(1)) * batch.sum().item()

    own("looks", lambda *given: Looks(64, given[-1]))
    run = complete_config({"algorithm": "fedavg", "model": "looks"}, NOWHERE)
    assert share_of([run], a_node(gigabytes=8)) == 0.05
    line = " ".join(capsys.readouterr().err.split())
    assert "looks with batches of 32" in line
    assert "--gpus-per-actor SHARE" in line


@pytest.mark.parametrize("gigabytes", [16, 40, 80])
def test_the_paper_fits_on_cards_of_three_sizes(gigabytes):
    """Alone and beside another one: each actor has room, and the two GPUs have it for all actors."""
    needs = max(compute_actor_bytes(compute_training_bytes(find_workload(run, NOWHERE)), 0) for run in PAPER)
    for other in (gigabytes, 40, 80):
        nodes = [a_node(gigabytes=gigabytes), a_node(gigabytes=other)]
        request = add_gpu_share(PAPER, nodes, PlacementRequest(), NOWHERE)
        for place in compute_placements(PAPER, nodes, request, len(PAPER)).values():
            assert place.gpus_per_actor * min(gigabytes, other) * GB >= needs
            assert place.num_actors * place.gpus_per_actor <= 2


@pytest.mark.parametrize(
    ("model", "shape", "optimizer"),
    sorted(
        {
            (load.model, load.inputs.shape, load.training.optimizer)
            for load in (find_workload(run, NOWHERE) for run in PAPER)
        }
    ),
)
def test_the_papers_models_take_no_more_than_reckoned(model, shape, optimizer, monkeypatch):
    """Counted on the stand-in, in batches of 4 so that it is fast."""
    monkeypatch.setattr(evaluation, "TEST_BATCH", 4)
    training = {"batch_size": 4, "optimizer": optimizer}
    case = Case(model=model, training=training, images=4, shape=shape)
    with StandIn() as gpu:
        worker, start = build_worker(case, "cuda"), build_start(case)
        worker.train([TrainTask(Order(0, (0,)), 0, evaluate=True)], [start], {})
        worker.evaluate([EvaluateTask(0, 0)], [start])
    reckoned = compute_training_bytes(workload(model, image_inputs(*shape), **training))
    assert reckoned / 2 < gpu.peak <= reckoned
