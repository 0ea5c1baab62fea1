"""Models that normalise their images: `training.normalise`."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import EvaluateTask, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.data.images import ChannelStatistics, ImageSet
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.models.flat_vectors import build_blank, draw_initial_vector
from fedgrid.engine.federation.models.normalisation import Normalised
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import load_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup

NOWHERE = Path("no-data-needed")


def test_channels_get_mean_zero_and_deviation_one():
    images = torch.rand(50, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    images[:, 1] *= 0.1
    deviations, means = (each.tolist() for each in torch.std_mean(images, dim=(0, 2, 3), correction=0))
    shown = Normalised(nn.Identity(), means, deviations, "cpu")(images)
    assert shown.mean(dim=(0, 2, 3)).tolist() == pytest.approx([0, 0], abs=1e-5)
    assert shown.std(dim=(0, 2, 3), correction=0).tolist() == pytest.approx([1, 1], abs=1e-5)


def test_state_is_that_of_the_model_itself():
    module = build_blank("lenet5", image_inputs(1, 28, 28), 10)
    wrapped = Normalised(build_blank("lenet5", image_inputs(1, 28, 28), 10), [0.1], [0.3], "cpu")
    assert flat_vectors.read_layout(wrapped).shapes == flat_vectors.read_layout(module).shapes
    vector = draw_initial_vector("lenet5", image_inputs(1, 28, 28), 10, seed=0)
    flat_vectors.write_vector(wrapped, vector)
    assert flat_vectors.read_vector(wrapped).tobytes() == vector.tobytes()


def setup(normalise="dataset", model="digitnet"):
    """Three clients of digits with 40 draws each."""
    given = {"clients": 3, "model": model, "split": {"draws": 40}, "training": {"normalise": normalise}}
    return prepare_setup(complete_config(given, NOWHERE), NOWHERE)[0]


def test_clients_are_told_the_statistics_of_the_pool_only_if_they_normalise():
    pool, _ = load_dataset("digits", NOWHERE)
    assert setup().normalised_by == ChannelStatistics.measure(pool.images)
    assert setup("none").normalised_by is None


def outcome(given):
    """Return the update of a client, and how its model does on its test set."""
    worker = ClientWorker(given)
    start = draw_initial_vector(given.model, image_inputs(1, 8, 8), given.num_classes, given.seed)
    [reply] = worker.train([TrainTask(Order(0, (0,)), 0, evaluate=True)], [start], {})
    [report] = worker.evaluate([EvaluateTask(0, 0)], [start + reply.update])
    return reply.update, reply.report.local, report.own


def dimmed(held):
    """Even pixels, halved."""
    return ImageSet(held.images // 2, held.labels)


def bright(held):
    return ImageSet(held.images // 2 * 2, held.labels)


def with_images(given, change):
    """Return the setup with other images, and their statistics if it has any."""
    clients = tuple(
        replace(client, train=change(client.train), test=change(client.test)) for client in given.clients
    )
    shown = np.concatenate([client.train.images for client in clients])
    by = None if given.normalised_by is None else ChannelStatistics.measure(shown)
    return replace(given, clients=clients, server_set=change(given.server_set), normalised_by=by)


def test_half_the_brightness_changes_nothing_in_training_and_tests_if_normalised():
    first, second = (outcome(with_images(setup(), change)) for change in (bright, dimmed))
    assert first[0] == pytest.approx(second[0], abs=1e-4)
    for one, other in zip(first[1:], second[1:], strict=True):
        assert one.confusion.tolist() == other.confusion.tolist()
        assert one.loss_sum == pytest.approx(other.loss_sum, rel=1e-3)
