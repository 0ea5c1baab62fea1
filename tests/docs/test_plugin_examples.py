"""The plugins of docs/examples with a message, an adaptation and personal entries: against torch by hand."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch.nn.functional import cross_entropy

from fedgrid import pretrained
from fedgrid.engine.federation.clients.messages import EvaluateTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import (
    build_blank,
    build_layout,
    read_vector,
)
from fedgrid.engine.federation.training.confusion import compute_scores
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.configuration.own_models import check_own_model
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from fedgrid.engine.runtime.run.prepare import prepare_setup
from tests.helpers.small_runs import NOWHERE, config, play, rows
from tests.helpers.torch_by_hand import RATE, WHOLE, build_network, descend, read_tensors

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SEVERAL = {**WHOLE, "local_epochs": 3}
HEAD = 96 * 10 + 10
"""Entries of digitnet's last layer."""


@pytest.fixture(autouse=True)
def examples() -> Iterator[None]:
    active.use_plugins([EXAMPLES / name for name in ("my_message.py", "my_adaptation.py")])
    yield
    active.use_plugins()


def loss_of(setup, model: np.ndarray, client: int) -> float:
    """Return the loss of a model on a client's test images."""
    [report] = ClientWorker(setup).evaluate([EvaluateTask(client, 0)], [model])
    return compute_scores([report.own])[0]["loss"]


def clusters_and_groups(run, root):
    """Return of each round the pairs (cluster, hidden group) that clients have."""
    groups_K = prepare_setup(run, NOWHERE)[1]
    found: dict[int, set[tuple[int, int]]] = {}
    for row in rows(run, root, "clients"):
        if row["cluster"] is not None:
            found.setdefault(row["round"], set()).add((row["cluster"], int(groups_K[row["client"]])))
    return list(found.values())


def test_message_finds_the_groups_before_round_1_at_40_bytes_a_client(tmp_path):
    run = config("same-classes", split="nonoverlapping-balanced")
    play(run, tmp_path)
    first, *others = rows(run, tmp_path, "rounds")
    assert [len(pairs) for pairs in clusters_and_groups(run, tmp_path)] == [3, 3, 3]
    assert first["clustered"]
    assert first["message_bytes"] == run.clients * 10 * 4
    assert {row["message_bytes"] for row in others} == {0}


def test_newcomer_joins_the_clients_with_its_classes(tmp_path):
    run = config("same-classes", split="nonoverlapping-balanced", joins={5: 2})
    play(run, tmp_path)
    assert [len(pairs) for pairs in clusters_and_groups(run, tmp_path)[1:]] == [3, 3]


def test_falling_rate_is_gradient_descent_by_hand(tmp_path):
    """Four steps from the served model with rates 0.1, 0.075, 0.05 and 0.025."""
    run = config({"name": "refined", "fine_tune": 4}, training={"rounds": 1, **SEVERAL})
    model = checkpoint.load_state(play(run, tmp_path), 1).state.models[0]
    setup, _ = prepare_setup(run, NOWHERE)
    for row in rows(run, tmp_path, "clients"):
        module = build_network(model)
        for left in (4, 3, 2, 1):
            images, labels = read_tensors(setup.clients[row["client"]].train)
            loss = cross_entropy(module(images), labels)
            descend(loss, list(module.parameters()), RATE * left / 4)
        assert row["personalised_loss"] == pytest.approx(
            loss_of(setup, read_vector(module), row["client"]), rel=1e-4
        )


class TestAnyModule:
    WEIGHTS = save({"1.weight": torch.full((32, 64), 0.25), "1.bias": torch.zeros(32)})

    @pytest.fixture(autouse=True)
    def modules(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "backbone.safetensors").write_bytes(self.WEIGHTS)
        text = (EXAMPLES / "my_modules.py").read_text()
        (tmp_path / "my_modules.py").write_text(text.replace("0" * 64, sha256(self.WEIGHTS).hexdigest()))
        active.use_plugins([tmp_path / "my_modules.py"])
        check_own_model.cache_clear()

    @pytest.mark.parametrize(
        ("model", "entries"),
        [
            ("normed", 64 * 32 + 32 + 2 * 32 + 32 * 10 + 10),
            ("tied", 64 * 64 + 2 * 64 + 64 * 10 + 10),
            ("frozen-backbone", 32 * 10 + 10),
        ],
    )
    def test_what_trains_is_sent(self, model, entries, tmp_path):
        run = config("fedavg", model=model, training={"rounds": 1, **SEVERAL})
        play(run, tmp_path)
        assert build_layout(model, image_inputs(1, 8, 8), 10).size == entries
        assert [row["bytes_up"] for row in rows(run, tmp_path, "rounds")] == [4 * entries * run.clients]

    def test_pretrained_weights_stay(self):
        module = build_blank("frozen-backbone", image_inputs(1, 8, 8), 10, seed=7)
        assert (module[0][1].weight == 0.25).all()

    @pytest.mark.parametrize(
        ("weights", "says"), [(b"other", "digest [0-9a-f]{64}, not"), (None, "No such file.*safetensors")]
    )
    def test_other_weights_are_refused_before_the_start(self, weights, says, tmp_path):
        file = tmp_path / "backbone.safetensors"
        file.unlink() if weights is None else file.write_bytes(weights)
        with pytest.raises(ConfigError, match=f"line .*: model frozen-backbone: .*{says}"):
            config("fedavg", model="frozen-backbone", training={"rounds": 1, **SEVERAL})

    def test_a_transformer_learns_tokens(self, tmp_path):
        active.use_plugins([EXAMPLES / "my_transformer.py"])
        labels = np.arange(90) % 3
        tokens = 2 * labels[:, None] + np.random.default_rng(0).integers(0, 2, (90, 5))
        parts = {f"{part}_labels": labels for part in ("train", "test")}
        np.savez(tmp_path / "texts.npz", train_images=tokens, test_images=tokens, **parts)
        run = complete_config(
            {
                **{"dataset": f"npz:{tmp_path / 'texts.npz'}", "model": "transformer", "split": "iid"},
                **{"clients": 3, "algorithm": "fedavg", "training": {"rounds": 4, "local_epochs": 3}},
            },
            NOWHERE,
        )
        play(run, tmp_path)
        losses = [row["train_loss"] for row in rows(run, tmp_path, "clients")]
        assert max(losses[-3:]) < min(losses[:3]) / 2

    def test_of_adapters_only_what_trains_is_sent(self, tmp_path):
        active.use_plugins([EXAMPLES / "my_transformer.py"])
        run = config("fedavg", model="lora", training={"rounds": 1, **SEVERAL})
        play(run, tmp_path)
        sent = 128 * 4 + 128 * 10 + 10
        assert [row["bytes_up"] for row in rows(run, tmp_path, "rounds")] == [4 * sent * run.clients]

    def test_a_relative_path_is_refused(self):
        with pytest.raises(ConfigError, match="~/weights.safetensors"):
            pretrained("weights.safetensors", "")
