"""The plugin of docs/examples with a loss of its own, and the round cache with rules that remember models."""

from collections.abc import Iterator
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
from tests.helpers.small_runs import NOWHERE, config, files, find_differing, play, rows
from tests.helpers.torch_by_hand import WHOLE, build_network, descend, read_tensors

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(autouse=True)
def examples() -> Iterator[None]:
    active.use_plugins([EXAMPLES / "my_local.py"])
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


def test_focal_loss_trains_and_its_mean_is_a_number_of_the_round(tmp_path):
    """One step from the initial model, whose losses are recorded; cross-entropy stays the recorded loss."""
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


@pytest.mark.parametrize(("name", "num_entries"), [("fedproto", 0), ("fedem", 2)])
def test_rounds_that_no_other_run_shares_are_not_in_the_cache(name, num_entries, tmp_path):
    """With normalised images in bfloat16: features are those of the model within."""
    run = config(name, training={"rounds": 2, "normalise": "dataset", "precision": "bfloat16"})
    play(run, tmp_path)
    assert len(files(tmp_path, "*-reports")) == num_entries
    assert bool(files(tmp_path)) == bool(num_entries)
    assert find_differing(run, tmp_path) == []
