"""The plugins of docs/examples whose rules use the model, the examples and a test of their own."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector, read_vector
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.plugin_files import DROPOUT
from tests.helpers.small_runs import NOWHERE, config, files, find_differing, play, read_numbers, rows
from tests.helpers.torch_by_hand import WHOLE, build_network, descend, read_tensors

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(autouse=True)
def examples() -> Iterator[None]:
    active.use_plugins([EXAMPLES / name for name in ("fedem.py", "fedproto.py")])
    yield
    active.use_plugins()


def stepped(model: np.ndarray, loss_of) -> np.ndarray:
    """Return a model after one step of gradient descent."""
    module = build_network(model)
    descend(loss_of(module), list(module.parameters()))
    return read_vector(module)


@torch.no_grad()
def losses_of(models: list[np.ndarray], images: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of each model (columns) on each image (rows)."""
    return torch.stack(
        [cross_entropy(build_network(model)(images), labels, reduction="none") for model in models], 1
    )


def weighted_loss(module: nn.Module, images: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    return (weights * cross_entropy(module(images), labels, reduction="none")).mean()


def parts_of(mixture: Tensor, losses: Tensor) -> Tensor:
    weighted = mixture * torch.exp(-losses)
    return weighted / weighted.sum(1, keepdim=True)


@pytest.mark.parametrize("num_models", [1, 2])
def test_fedem_is_algorithm_1_of_the_paper(num_models, tmp_path):
    """Parts of images, then the mixture, then a step of each model; clients that were away keep theirs.

    One model is FedAvg. One that has not trained yet makes a mixture of its training images for its test.
    """
    algorithm = {"name": "fedem", "num_models": num_models}
    run = config(algorithm, participation=0.5, training={"rounds": 2, **WHOLE})
    folder = play(run, tmp_path)
    setup, _ = prepare_setup(run, NOWHERE)
    models = [
        draw_initial_vector(run.model, image_inputs(1, 8, 8), 10, run.root_seed, number)
        for number in range(num_models)
    ]
    even = torch.full((num_models,), 1 / num_models)
    mixtures: dict[int, Tensor] = {}
    clients = rows(run, tmp_path, "clients")
    for number, of_round in ((1, clients[: run.clients]), (2, clients[run.clients :])):
        changes, ranges = [], []
        for row in of_round:
            if row["part"] != "trained":
                continue
            client = row["client"]
            images, labels = read_tensors(setup.clients[client].train)
            losses = losses_of(models, images, labels)
            ranges.append(float(np.ptp(losses.mean(0).numpy())))
            parts = parts_of(mixtures.get(client, even), losses)
            mixtures[client] = parts.mean(0)
            after = [
                stepped(model, partial(weighted_loss, images=images, labels=labels, weights=weights))
                for model, weights in zip(models, parts.T, strict=True)
            ]
            changes.append(np.stack(after) - np.stack(models))
            assert row["cluster"] == losses.mean(0).argmin()
        models = list(np.stack(models) + np.mean(changes, axis=0))
        for row in of_round:
            data = setup.clients[row["client"]]
            mixture = mixtures.get(row["client"])
            if mixture is None:
                mixture = parts_of(even, losses_of(models, *read_tensors(data.train))).mean(0)
            images, labels = read_tensors(data.test)
            chances = torch.exp(-losses_of(models, images, labels)) @ mixture
            assert row["personalised_loss"] == pytest.approx(-chances.log().mean().item(), rel=1e-4)
        [record] = [row for row in rows(run, tmp_path, "rounds") if row["round"] == number]
        assert record["losses_apart"] == pytest.approx(np.mean(ranges), rel=1e-4, abs=1e-6)
        assert record["bytes_down"] == 3 * 4 * num_models * len(models[0])
        assert record["bytes_up"] == record["bytes_down"] + 3 * 4 * num_models
    stored = checkpoint.load_state(folder, 2)
    np.testing.assert_allclose(np.stack(stored.state.models), np.stack(models), atol=1e-6)
    for client, mixture in mixtures.items():
        np.testing.assert_allclose(stored.memories[client]["mixture"], mixture, atol=1e-6)


def test_fedproto_is_algorithm_1_of_the_paper(tmp_path):
    """Whole models stay with the clients; prototypes are means of features before the round's only step."""
    run = config("fedproto", training={"rounds": 2, **WHOLE})
    folder = play(run, tmp_path)
    setup, _ = prepare_setup(run, NOWHERE)
    initial = draw_initial_vector(run.model, image_inputs(1, 8, 8), 10, run.root_seed, 0)
    models = dict.fromkeys(range(run.clients), initial)
    prototypes, known = torch.zeros(10, 96), torch.zeros(10, dtype=torch.bool)

    def loss_of(module: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        features = module[:-1](images)
        offsets = (features - prototypes[labels]) * known[labels][:, None]
        return cross_entropy(module[-1](features), labels) + offsets.square().mean()

    for _ in range(2):
        means = []
        for client, model in models.items():
            images, labels = read_tensors(setup.clients[client].train)
            features = build_network(model)[:-1](images).detach()
            means.append({label: features[labels == label].mean(0) for label in labels.unique().tolist()})
            models[client] = stepped(model, lambda module, on=(images, labels): loss_of(module, *on))
        for label in range(10):
            if having := [mean[label] for mean in means if label in mean]:
                prototypes[label], known[label] = torch.stack(having).mean(0), True
    stored = checkpoint.load_state(folder, 2)
    np.testing.assert_allclose(stored.state.arrays["prototypes"], prototypes, atol=1e-5)
    assert stored.state.arrays["known"].tolist() == known.tolist()
    for row in rows(run, tmp_path, "clients")[run.clients :]:
        data, model = setup.clients[row["client"]], models[row["client"]]
        np.testing.assert_allclose(stored.memories[row["client"]]["personal"], model, atol=1e-5)
        images, labels = read_tensors(data.test)
        features = build_network(model)[:-1](images).detach()
        own = torch.from_numpy(np.unique(data.train.labels))
        nearest = own[torch.cdist(features, prototypes[own]).argmin(1)]
        assert row["personalised_accuracy"] == pytest.approx((nearest == labels).float().mean().item())
    for row in rows(run, tmp_path, "rounds"):
        assert row["bytes_down"] == run.clients * (4 * 10 * 96 + 10)
        assert row["bytes_up"] == run.clients * 4 * (10 * 96 + 10)


def test_focal_loss_trains_and_its_mean_is_a_number_of_the_round(tmp_path):
    """One step from the initial model, whose losses are recorded; cross-entropy stays the recorded loss."""
    active.use_plugins([EXAMPLES / "my_local.py"])
    run = config({"name": "fedavg", "local": {"name": "focal"}}, training={"rounds": 1, **WHOLE})
    folder = play(run, tmp_path)
    setup, _ = prepare_setup(run, NOWHERE)
    initial = draw_initial_vector(run.model, image_inputs(1, 8, 8), 10, run.root_seed, 0)
    losses, models = [], []

    def focal(module: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
        entropy_N = cross_entropy(module(images), labels, reduction="none")
        return ((1 - torch.exp(-entropy_N)) ** 2 * entropy_N).mean()

    for client, row in enumerate(rows(run, tmp_path, "clients")):
        images, labels = read_tensors(setup.clients[client].train)
        losses.append(focal(build_network(initial), images, labels).item())
        models.append(stepped(initial, lambda module, on=(images, labels): focal(module, *on)))
        assert row["train_loss"] == pytest.approx(losses_of([initial], images, labels).mean().item())
    assert [row["focal_loss"] for row in rows(run, tmp_path, "rounds")] == [pytest.approx(np.mean(losses))]
    np.testing.assert_allclose(
        checkpoint.load_state(folder, 1).state.models[0], np.mean(models, 0), atol=1e-6
    )
    other = config({"name": "ocfl-kmeans", "local": {"name": "focal"}}, training={"rounds": 1, **WHOLE})
    play(other, tmp_path)
    assert rows(other, tmp_path, "rounds")[0]["focal_loss"] == pytest.approx(np.mean(losses)), "of the cache"


@pytest.mark.parametrize(
    "algorithm",
    [
        "fedem",
        "fedproto",
        {"name": "fedrep", "head_epochs": 1},
        {"name": "fedavg", "local": {"name": "focal"}},
    ],
    ids=str,
)
def test_rules_train_models_that_draw_whatever_was_drawn_before(algorithm, tmp_path):
    model = tmp_path / "drawing.py"
    model.write_text(DROPOUT.replace("build=function)", 'build=function, head="last")'))
    active.use_plugins(
        [model, *(EXAMPLES / f"{name}.py" for name in ("fedem", "fedproto", "fedrep", "my_local"))]
    )
    run = config(algorithm, model="dropout-function", clients=3, training={"rounds": 2, "local_epochs": 2})
    folders = []
    for seed in range(2):
        torch.manual_seed(seed)
        folders.append(read_numbers(play(run, tmp_path / str(seed))))
    assert folders[0] == folders[1]


@pytest.mark.parametrize(("name", "num_entries"), [("fedproto", 0), ("fedem", 2)])
def test_rounds_that_no_other_run_shares_are_not_in_the_cache(name, num_entries, tmp_path):
    """With normalised images in bfloat16: features are those of the model within."""
    run = config(name, training={"rounds": 2, "normalise": "dataset", "precision": "bfloat16"})
    play(run, tmp_path)
    assert len(files(tmp_path, "*-reports")) == num_entries
    assert bool(files(tmp_path)) == bool(num_entries)
    assert find_differing(run, tmp_path) == []
