"""BatchNorm's buffers by `training.buffers`, on a model of one norm and one linear layer."""

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.plugin_files import MODEL
from tests.helpers.small_runs import NOWHERE, config, play, rows

WEIGHTS, FEATURES = 2 * 64 + 64 * 10 + 10, 64
"""Parameters of the model, and entries of each of the norm's tensors."""


@pytest.fixture(autouse=True)
def model(tmp_path):
    (tmp_path / "own.py").write_text(MODEL.replace("nn.Flatten()", "nn.Flatten(), nn.BatchNorm1d(64)"))
    active.use_plugins([tmp_path / "own.py"])
    yield
    active.use_plugins()


def played(tmp_path, buffers, algorithm="fedavg", **given):
    """Return a run of two rounds of one batch each, and its last state."""
    training = {"rounds": 2, "batch_size": 1000, "buffers": buffers}
    run = config(algorithm, model="own-model", training=training, **given)
    return run, checkpoint.load_state(play(run, tmp_path), 2)


@pytest.mark.parametrize(("buffers", "batches"), [("mean", 2), ("local", 0), ("reset", 1)])
def test_counter_of_batches_that_the_server_has_after_two_rounds_of_one(buffers, batches, tmp_path):
    _, last = played(tmp_path, buffers)
    assert last.state.models[0][-1] == batches


def test_reset_statistics_are_those_of_one_round(tmp_path):
    """With momentum 0.1, from 0: a tenth of the mean of the pixels; 0.19 of it after two in a row."""
    run, last = played(tmp_path, "reset")
    means = [
        data.train.images.reshape(-1, FEATURES).mean(axis=0) / 255
        for data in prepare_setup(run, NOWHERE)[0].clients
    ]
    running = last.state.models[0][WEIGHTS : WEIGHTS + FEATURES]
    np.testing.assert_allclose(running, 0.1 * np.mean(means, axis=0), atol=1e-6)


def test_local_buffers_stay_with_clients_that_are_tested_with_them(tmp_path):
    run, last = played(tmp_path, "local", evaluation={"global_model": True})
    model, setup = last.state.models[0], prepare_setup(run, NOWHERE)[0]
    assert {row["bytes_up"] for row in rows(run, tmp_path, "rounds")} == {run.clients * 4 * WEIGHTS}
    for row in rows(run, tmp_path, "clients"):
        if row["round"] < 2:
            continue
        data, own = setup.clients[row["client"]], last.memories[row["client"]]["personal"]
        assert own[-1] == 2
        norm, linear = nn.BatchNorm1d(FEATURES).eval(), nn.Linear(FEATURES, 10)
        parameters = torch.from_numpy(model[:WEIGHTS].copy())
        nn.utils.vector_to_parameters(parameters, [*norm.parameters(), *linear.parameters()])
        norm.running_mean, norm.running_var = torch.from_numpy(own[:-1].copy()).split(FEATURES)
        logits = linear(norm(torch.from_numpy(data.test.images).flatten(1) / 255))
        loss = nn.functional.cross_entropy(logits, torch.from_numpy(data.test.labels)).item()
        assert row["personalised_loss"] == row["global_own_loss"] == pytest.approx(loss, rel=1e-4)
        assert row["generalised_loss"] is None


def test_entries_that_clients_keep_anyway_come_with_them(tmp_path):
    """LG-FedAvg shares the linear layer: the norm's weights and buffers stay."""
    _, last = played(tmp_path, "local", {"name": "lg-fedavg", "shared": 1, "warmup_rounds": 0})
    assert {len(memory["personal"]) for memory in last.memories.values()} == {4 * FEATURES + 1}
    with pytest.raises(ConfigError, match="warmup_rounds: 0"):
        played(tmp_path, "local", {"name": "lg-fedavg", "warmup_rounds": 1})
