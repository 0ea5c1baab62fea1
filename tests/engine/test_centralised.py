"""Centralised training equals a plain torch loop, and its norms are those of the weights."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch.nn import functional

from fedgrid.engine.centralised import EPOCHS, complete, prepare, train
from fedgrid.engine.data.datasets import load
from fedgrid.engine.data.registry import DATASETS
from fedgrid.engine.errors import ConfigError, RunError
from fedgrid.engine.models import flat_vectors
from fedgrid.engine.models.flat_vectors import layout_of
from fedgrid.engine.models.initialisation import blank, initial_vector
from fedgrid.engine.seeds import generator

NOWHERE = Path("nowhere")
DIGITNET = ("digitnet", (1, 8, 8), 10)


@pytest.fixture
def tiny(tmp_path):
    """Return the name of a data set of 12 images of 8x8 in three classes."""
    rng = np.random.default_rng(0)
    parts = {}
    for part in ("train", "val", "test"):
        parts[f"{part}_images"] = rng.integers(0, 256, (6, 8, 8), dtype=np.uint8)
        parts[f"{part}_labels"] = np.arange(6)[:, None] % 3
    np.savez(tmp_path / "tiny.npz", **parts)
    return f"npz:{tmp_path / 'tiny.npz'}"


def trained(config, progress=None):
    return list(train(config, NOWHERE, prepare(config, NOWHERE), progress))


def plain_loop(training, seed, epochs):
    """Yield loss, accuracy, weights and confusion matrix of each epoch, from torch's own optimizer."""
    pool, server = load("digits", NOWHERE)
    module = blank(*DIGITNET)
    flat_vectors.write(module, initial_vector(*DIGITNET, seed))
    optimizer = torch.optim.SGD(module.parameters(), training.learning_rate, momentum=training.momentum)
    images, labels = torch.from_numpy(pool.images) / 255, torch.from_numpy(pool.labels)
    for epoch in range(epochs):
        order = generator(seed, "batches", client=0, round_index=epoch).permutation(len(labels))
        loss_sum = hits = 0.0
        for batch in torch.from_numpy(order).split(training.batch_size):
            logits = module(images[batch])
            loss = functional.cross_entropy(logits, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.item() * len(batch)
            hits += (logits.argmax(1) == labels[batch]).sum().item()
        with torch.no_grad():
            predicted = module(torch.from_numpy(server.images) / 255).argmax(1).numpy()
        scores = {
            "loss": loss_sum / len(labels),
            "accuracy": hits / len(labels),
            "server_accuracy": (predicted == server.labels).mean(),
            "server_f1": f1_score(server.labels, predicted, average="macro"),
        }
        yield scores, flat_vectors.read_vector(module).astype(np.float64)


def test_epochs_equal_a_plain_torch_loop_with_one_optimizer():
    """Momentum is kept between epochs; the norms are those of the plain loop's weights."""
    config = complete("digits", NOWHERE, seed=3, epochs=3, training={"momentum": 0.5, "learning_rate": 0.05})
    before = initial_vector(*DIGITNET, config.root_seed).astype(np.float64)
    plain = plain_loop(config.training, config.root_seed, 3)
    for number, ((_, row), (scores, after)) in enumerate(zip(trained(config), plain, strict=True), start=1):
        assert list(row) == EPOCHS.names
        assert row["epoch"] == number
        assert {name: row[name] for name in scores} == pytest.approx(scores, rel=1e-3)
        assert row["update_l2"] == pytest.approx(np.sqrt(((after - before) ** 2).sum()), rel=1e-3)
        change = np.abs(after).sum() - np.abs(before).sum()
        assert row["weights_l1_change"] == pytest.approx(change, abs=1e-2)
        before = after


def test_state_norm_includes_batchnorm_buffers(tiny):
    """The progress holds the state: weights first, buffers after them. The counters alone are 36 times 1."""
    config = complete(tiny, NOWHERE, model="resnet34", epochs=1, training={"batch_size": 12})
    of_model = ("resnet34", (1, 8, 8), 3)
    size = layout_of(blank(*of_model)).num_parameters
    before = initial_vector(*of_model, config.root_seed)
    [(progress, row)] = trained(config)
    after = progress.state.models[0]
    update = after.astype(np.float64) - before
    assert row["update_l2"] == pytest.approx(np.linalg.norm(update[:size]), rel=1e-5)
    assert row["update_l2_state"] == pytest.approx(np.linalg.norm(update), rel=1e-5)
    assert row["update_l2_state"] > 6 > row["update_l2"]
    l1 = [float(np.abs(weights[:size].astype(np.float64)).sum()) for weights in (before, after)]
    assert row["weights_l1_change"] == pytest.approx(l1[1] - l1[0], abs=1e-6)


@pytest.mark.parametrize("optimizer", [{"momentum": 0.9}, {"optimizer": "adam", "learning_rate": 0.001}])
def test_resumed_training_is_bit_identical(optimizer):
    config = complete("digits", NOWHERE, epochs=2, training=optimizer)
    (first, _), (last, row) = trained(config)
    [(again, same_row)] = trained(config, first)
    assert same_row == row
    assert np.array_equal(again.state.models[0], last.state.models[0])
    assert list(again.memories[0]) == list(last.memories[0]) == ["optimizer"]
    assert np.array_equal(again.memories[0]["optimizer"], last.memories[0]["optimizer"])


def test_training_defaults_to_the_data_sets():
    config = complete("digits", NOWHERE)
    assert config.training == DATASETS["digits"].training.model_copy(
        update={"local_epochs": 1, "keep_optimizer_state": True}
    )
    assert (config.model, config.seed, config.name) == ("digitnet", 0, "digits-digitnet-s0")
    other = complete("digits", NOWHERE, seed=1, epochs=4, model="tinyvgg", training={"batch_size": 8})
    assert (other.name, other.training.rounds, other.training.batch_size) == ("digits-tinyvgg-s1", 4, 8)
    assert other.run_id != config.run_id == complete("digits", NOWHERE, epochs=15).run_id


def test_precision_is_that_of_a_run(tiny):
    options = {"model": "digitnet", "epochs": 1}
    (wide, _), (narrow, _) = (
        trained(complete(tiny, NOWHERE, training={"precision": each}, **options))[0]
        for each in ("float32", "bfloat16")
    )
    moved = np.linalg.norm(narrow.state.models[0] - wide.state.models[0])
    assert 0 < moved < 0.01 * np.linalg.norm(wide.state.models[0])


def test_own_images_have_a_short_name(tiny):
    assert complete(tiny, NOWHERE).name == "npz_tiny-tinyvgg-s0"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"dataset": "digit"}, "unknown dataset 'digit'; did you mean 'digits'"),
        ({"model": "vgg"}, "unknown model 'vgg'"),
        ({"seed": -1}, "seed = -1"),
        ({"training": {"rounds": 5}}, "training.rounds has no effect here"),
        ({"training": {"local_epochs": 3}}, "--epochs"),
        ({"training": {"keep_optimizer_state": False}}, "optimizer's state is kept; leave it out"),
        ({"training": {"learning_rate": 0}}, "training.learning_rate = 0"),
        ({"training": {"rate": 1}}, "unknown key 'rate' in training"),
    ],
)
def test_impossible_settings_are_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        complete(**{"dataset": "digits", "data_dir": NOWHERE, **given})


def test_non_finite_weights_stop_the_training():
    config = complete("digits", NOWHERE, training={"learning_rate": 1e30})
    with pytest.raises(RunError, match=r"epoch 1: weights are NaN or infinite; lower training.learning_rate"):
        trained(config)


def test_groups_of_images_make_no_difference(tiny, tmp_path):
    """A training on everything has no clients, and so no hidden groups."""
    with np.load(tiny.removeprefix("npz:")) as file:
        groups = {f"{part}_group": np.arange(6) % 2 for part in ("train", "val", "test")}
        (tmp_path / "again").mkdir()
        np.savez(tmp_path / "again" / "tiny.npz", **file, **groups)
    rows = [
        [row for _, row in trained(complete(dataset, NOWHERE, epochs=2, model="digitnet"))]
        for dataset in (tiny, f"npz:{(tmp_path / 'again' / 'tiny.npz')}")
    ]
    assert rows[0] == rows[1]
