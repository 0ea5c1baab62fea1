"""What holds for every local rule: of the package, of the plugins of docs/examples, and of rivals.

Two rounds in process, on models that a rule's author may not have thought of. A new rule is tested here by
being registered.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedgrid.algorithms.contract.local_method import LOCAL_METHODS
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm
from fedgrid.engine.federation.models import registry
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run import checkpoint
from tests.helpers.small_runs import config, play, read_numbers

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
MODELS = """
import torch
from torch import nn
from torch.nn import functional
from fedgrid import ModelEntry

BUILT = []

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.drop, self.last = nn.Linear(64, 16), nn.Dropout(0.5), nn.Linear(16, 10)

    def forward(self, images):
        return self.last(self.drop(self.body(images.flatten(1)).relu()))

class Everything(nn.Module):
    '''A convolution, whose order in memory is its own; what trains is neither first nor all.'''

    def __init__(self):
        super().__init__()
        self.frozen = nn.Linear(64, 64)
        nn.init.constant_(self.frozen.weight, 0.01).requires_grad_(False)
        self.convolution, self.norm = nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4)
        self.first, self.second = nn.Linear(36, 36), nn.Linear(36, 36)
        self.second.weight = self.first.weight
        self.last = nn.Linear(36, 10)
        self.register_buffer("order", torch.arange(63, -1, -1))
        BUILT.append(self)

    def forward(self, images):
        pixels = images.flatten(1)[:, self.order]
        pixels = (pixels + self.frozen(pixels)).view(-1, 1, 8, 8)
        features = self.norm(self.convolution(pixels)).relu().flatten(1)
        features = functional.dropout(self.first(features).relu(), 0.5, self.training)
        return self.last(self.second(features).relu())

MODELS = [
    ModelEntry("dropout", "a perceptron", "ours", module=lambda inputs, classes: Plain(), head="last"),
    ModelEntry("everything", "a network", "ours", module=lambda inputs, classes: Everything(), head="last"),
]
"""


def list_rules() -> dict[str, dict[str, Any]]:
    """List the values of `algorithm` by which clients do not just train plainly, by title."""
    before = set(ALGORITHMS), set(LOCAL_METHODS)
    active.use_plugins(find_plugins())
    own, methods = set(ALGORITHMS) - before[0], list(LOCAL_METHODS)
    names = [name for name, entry in ALGORITHMS.items() if name in own or has_rule(name, entry)]
    active.use_plugins()
    under = {f"ocfl-kmeans with {name}": {"name": "ocfl-kmeans", "local": {"name": name}} for name in methods}
    return {name: {"name": name} for name in names} | under


def find_plugins() -> list[Path]:
    """Find the plugins of docs/examples that have a rule."""
    return [path for path in sorted(EXAMPLES.glob("*.py")) if "LocalRule" in path.read_text()]


def has_rule(name: str, entry: Any) -> bool:
    """Check whether a registered algorithm is a rival, or has a rule or an adaptation of its own."""
    is_rival = entry.algorithm.__module__.startswith("fedgrid.rivals")
    return is_rival or name == "fine-tuned" or not create_algorithm(name).traits.trains_plainly


@pytest.fixture(autouse=True)
def plugins(tmp_path: Path) -> Iterator[None]:
    (tmp_path / "models.py").write_text(MODELS)
    active.use_plugins([tmp_path / "models.py", *find_plugins()])
    yield
    active.use_plugins()


def collect_arrays(named: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Collect the arrays of floating numbers."""
    return [array for array in named.values() if array.dtype.kind == "f"]


RULES = list_rules()


@pytest.mark.parametrize("model", ["dropout", "everything"])
@pytest.mark.parametrize("algorithm", RULES.values(), ids=RULES)
def test_rule_gives_the_same_finite_numbers_in_one_go_and_resumed(algorithm, model, tmp_path):
    """Whatever was drawn before; parts of the model that do not train stay as they were built."""
    training = {"rounds": 2, "local_epochs": 3, "batch_size": 16, "momentum": 0.9}
    # FedNova takes momentum to start from zero.
    training["keep_optimizer_state"] = "fednova" not in repr(algorithm)
    run = config(algorithm, clients=4, model=model, participation=0.75, training=training)
    torch.manual_seed(0)
    whole = play(run, tmp_path / "whole", cache=None)
    torch.manual_seed(1)
    play(run, tmp_path / "resumed", cache=None, until=1)
    resumed = play(run, tmp_path / "resumed", cache=None)
    assert read_numbers(whole) == read_numbers(resumed)

    stored = checkpoint.load_state(whole, 2)
    memories = [array for memory in stored.memories.values() for array in collect_arrays(memory)]
    arrays = [*stored.state.models, *collect_arrays(stored.state.arrays), *memories]
    assert all(np.isfinite(array).all() for array in arrays)
    built = registry.find_entry(model).function.__globals__["BUILT"]
    assert built or model == "dropout"
    for module in built:
        assert (module.frozen.weight == 0.01).all()
        assert module.order.tolist() == list(range(63, -1, -1))
        assert module.second.weight is module.first.weight
