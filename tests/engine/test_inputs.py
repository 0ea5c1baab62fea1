"""Runs on numbers and tokens beside images: what takes them, what refuses them, and what they are given."""

import numpy as np
import pytest

from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.federation.before_training.setup import build_setup
from fedgrid.engine.federation.clients.messages import TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import find_dataset, load_dataset

ROWS, CLASSES = 120, 3


def arrays(kind: str) -> dict[str, np.ndarray]:
    """Return examples whose class a model can learn."""
    rng = np.random.default_rng(0)
    labels = np.arange(ROWS) % CLASSES
    match kind:
        case "rows":
            examples = 50 + 20 * rng.normal(labels[:, None], 0.3, (ROWS, 4))
        case "series":
            examples = np.sin(np.arange(16) * (1 + labels[:, None, None])) + rng.normal(0, 0.2, (ROWS, 1, 16))
        case "tokens":
            examples = 3 * labels[:, None] + rng.integers(0, 3, (ROWS, 6))
        case _:
            examples = rng.integers(0, 256, (ROWS, 8, 8)).astype(np.uint8)
    is_test = np.arange(ROWS) % 4 == 0
    return {
        **{"train_images": examples[~is_test], "train_labels": labels[~is_test]},
        **{"test_images": examples[is_test], "test_labels": labels[is_test]},
    }


@pytest.fixture
def configure(tmp_path):
    """Return the configuration of a run on data of a kind."""

    def configured(kind, changes=None, **other):
        path = tmp_path / f"{kind}.npz"
        np.savez(path, **{**arrays(kind), **(changes or {})})
        base = {"dataset": f"npz:{path}", "split": "iid", "clients": 3, "algorithm": "fedavg"}
        return complete_config({**base, **other}, tmp_path)

    return configured


MODELS = {"rows": "mlp", "series": "cnn-1d", "tokens": "lstm"}


@pytest.mark.parametrize("kind", MODELS)
def test_a_run_has_a_model_of_its_own_kind_and_learns(configure, tmp_path, kind):
    config = configure(kind)
    setup, _ = build_setup(
        config, create_algorithm("fedavg", {}), load_dataset(config.dataset, tmp_path), CLASSES
    )
    model = draw_initial_vector(setup.model, setup.inputs, CLASSES, setup.seed)
    worker = ClientWorker(setup, "cpu")
    losses = []
    for round_index in range(6):
        [reply] = worker.train([TrainTask(Order(0, (0,)), round_index, evaluate=True)], [model], {})
        losses.append(reply.report.train_loss)
        model = np.asarray(model + reply.update, np.float32)
    assert setup.model == MODELS[kind]
    assert losses[-1] < 0.8 * losses[0]


def test_numbers_are_standardised_by_the_rows_that_clients_train_on(configure, tmp_path):
    config = configure("rows")
    setup, _ = build_setup(
        config, create_algorithm("fedavg", {}), load_dataset(config.dataset, tmp_path), CLASSES
    )
    rows = np.concatenate([client.train.images for client in setup.clients])
    assert setup.normalised_by is not None
    assert np.allclose(setup.normalised_by.means, rows.mean(axis=0, dtype=float))
    assert np.allclose(setup.normalised_by.deviations, rows.std(axis=0, dtype=float))


def test_the_type_of_an_array_says_what_it_holds(configure, tmp_path):
    kinds = {kind: find_dataset(configure(kind).dataset, tmp_path).inputs for kind in (*MODELS, "images")}
    assert kinds == {
        "rows": Inputs("numbers", (4,)),
        "series": Inputs("numbers", (1, 16)),
        "tokens": Inputs("tokens", (6,), 9),
        "images": Inputs("pixels", (1, 8, 8)),
    }


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("rows", {"split": "rotated"}, "split rotated takes images; npz:rows.npz@.* has 4 numbers a row"),
        ("series", {"split": "noisy"}, "split noisy takes images; .* has series of 1x16 numbers"),
        ("tokens", {"split": "continuum"}, "split continuum takes images; .* has texts of 6 tokens, 9"),
        ("rows", {"model": "tinyvgg"}, "model tinyvgg takes images"),
        ("tokens", {"model": "mlp"}, "model mlp takes images or numbers"),
        ("images", {"model": "cnn-1d"}, "model cnn-1d takes numbers; .* has images of 1x8x8 pixels"),
        ("rows", {"training": {"augment": ["flip"]}}, "training.augment takes images"),
        ("tokens", {"training": {"normalise": "dataset"}}, "training.normalise takes images or numbers"),
        ("rows", {"algorithm": "ladd"}, "algorithm ladd takes images"),
        ("series", {"algorithm": "embeddings"}, "algorithm embeddings takes images"),
        ("tokens", {"training": {"stacked": 2}}, "LSTM.* cannot be part of a stack"),
    ],
)
def test_what_is_about_another_kind_refuses_in_one_line(configure, kind, changes, message):
    with pytest.raises(ConfigError, match=message):
        configure(kind, **changes)


def test_numbers_that_look_like_images_need_a_model_by_name(configure):
    images = {name: array / 255 for name, array in arrays("images").items() if "images" in name}
    with pytest.raises(ConfigError, match="look like images; save them as uint8"):
        configure("images", images)
    assert configure("images", images, model="mlp").model == "mlp"
