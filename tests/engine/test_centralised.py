"""A training by one client equals a plain torch loop, and its norms are those of the weights."""

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score
from torch.nn import functional

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.models.flat_vectors import build_blank, draw_initial_vector, read_layout
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import load_dataset
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.grids.epsilons.analysis import read_epochs
from tests.helpers.small_grid import NOWHERE
from tests.helpers.small_runs import play

DIGITNET = ("digitnet", image_inputs(1, 8, 8), 10)


def centralised(*, dataset="digits", seed=0, training=None, **values):
    kept = {"local_epochs": 1, "keep_optimizer_state": True, **(training or {})}
    given = {"dataset": dataset, "split": "centralised", "clients": 1, "algorithm": "fedavg", **values}
    return complete_config({**given, "seed": seed, "training": kept}, NOWHERE)


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


def plain_loop(training, seed, epochs):
    """Yield loss, accuracy, weights and scores of each epoch, from torch's own optimizer."""
    pool, server = load_dataset("digits", NOWHERE)
    module = build_blank(*DIGITNET)
    flat_vectors.write_vector(module, draw_initial_vector(*DIGITNET, seed))
    optimizer = torch.optim.SGD(module.parameters(), training.learning_rate, momentum=training.momentum)
    images, labels = torch.from_numpy(pool.images) / 255, torch.from_numpy(pool.labels)
    for epoch in range(epochs):
        order = make_generator(seed, "batches", client=0, round_index=epoch).permutation(len(labels))
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


def test_epochs_equal_a_plain_torch_loop_with_one_optimizer(tmp_path):
    """Momentum is kept between epochs; the norms are those of the plain loop's weights."""
    config = centralised(seed=3, training={"rounds": 3, "momentum": 0.5, "learning_rate": 0.05})
    epochs = read_epochs(play(config, tmp_path, cache=None))
    assert epochs["epoch"].tolist() == [1, 2, 3]
    before = draw_initial_vector(*DIGITNET, config.root_seed).astype(np.float64)
    for place, (scores, after) in enumerate(plain_loop(config.training, config.root_seed, 3)):
        assert {name: epochs[name][place] for name in scores} == pytest.approx(scores, rel=1e-3)
        norm = np.sqrt(((after - before) ** 2).sum())
        assert epochs["update_l2"][place] == epochs["update_l2_state"][place] == pytest.approx(norm, rel=1e-3)
        change = np.abs(after).sum() - np.abs(before).sum()
        assert epochs["weights_l1_change"][place] == pytest.approx(change, abs=1e-2)
        before = after


def test_state_norm_includes_batchnorm_buffers(tiny, tmp_path):
    """The state holds weights first, buffers after them. The counters alone are 52 times 1."""
    config = centralised(dataset=tiny, model="mobilenet", training={"rounds": 1, "batch_size": 12})
    of_model = ("mobilenet", image_inputs(1, 8, 8), 3)
    size = read_layout(build_blank(*of_model)).num_parameters
    before = draw_initial_vector(*of_model, config.root_seed)
    folder = play(config, tmp_path / "runs", cache=None)
    after = checkpoint.load_state(folder, 1).state.models[0]
    update = after.astype(np.float64) - before
    [l2], [l2_state], [change] = (
        read_epochs(folder)[name] for name in ("update_l2", "update_l2_state", "weights_l1_change")
    )
    assert l2 == pytest.approx(np.linalg.norm(update[:size]), rel=1e-5)
    assert l2_state == pytest.approx(np.linalg.norm(update), rel=1e-5)
    assert l2_state > 7 > l2
    l1 = [float(np.abs(weights[:size].astype(np.float64)).sum()) for weights in (before, after)]
    assert change == pytest.approx(l1[1] - l1[0], abs=1e-6)


def test_its_client_holds_the_pool_and_is_tested_on_the_official_images():
    setup, truth_K = prepare_setup(centralised(), NOWHERE)
    pool, server = load_dataset("digits", NOWHERE)
    [client] = setup.clients
    assert np.array_equal(client.train.copy_images().images, pool.images)
    assert np.array_equal(client.test.copy_images().images, server.images)
    assert truth_K.tolist() == [0]


def test_several_clients_are_refused():
    with pytest.raises(ConfigError, match="clients = 2: split centralised has a single client; take 1"):
        prepare_setup(centralised(clients=2), NOWHERE)


def test_groups_of_images_make_no_difference(tiny, tmp_path):
    with np.load(tiny.removeprefix("npz:")) as file:
        groups = {f"{part}_group": np.arange(6) % 2 for part in ("train", "val", "test")}
        (tmp_path / "again").mkdir()
        np.savez(tmp_path / "again" / "tiny.npz", **file, **groups)
    for name in (tiny, f"npz:{tmp_path / 'again' / 'tiny.npz'}"):
        run = centralised(dataset=name, model="digitnet", training={"rounds": 2})
        play(run, tmp_path / "runs", cache=None)
    one, other = (read_epochs(folder) for folder in (tmp_path / "runs").glob("npz_tiny-1-centralised-*"))
    assert {name: one[name].tolist() for name in one} == {name: other[name].tolist() for name in other}
