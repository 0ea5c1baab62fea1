"""Models of plugins whose structure a training would not respect."""

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.cite.sizes import num_parameters
from tests.helpers.command_line import fedgrid
from tests.helpers.plugin_files import MODEL
from tests.helpers.small_grid import NOWHERE

MODELS = """
import torch
from torch import nn
from fedgrid import ModelEntry

def layers(*more):
    return nn.Sequential(nn.Flatten(), *more, nn.Linear(64, 10))

def frozen(*image):
    module = layers(nn.Linear(64, 64))
    module[1].requires_grad_(False)
    return module

def tied(*image):
    module = layers(nn.Linear(64, 64), nn.Linear(64, 64))
    module[2].weight = module[1].weight
    return module

def loaded(*image):
    module = layers()
    module.load_state_dict({"1.weight": torch.zeros(10, 64), "1.bias": torch.zeros(10)})
    return module

def buffered(*image):
    module = layers()
    module[1].register_buffer("mask", torch.ones(3, dtype=torch.int64))
    return module

def unknown(*image):
    return layers(nn.LayerNorm(64))

def broken(*image):
    raise FileNotFoundError("weights.pt")

def twice(*image):
    layer = nn.Linear(64, 64)
    return layers(layer, nn.ReLU(), layer)

def drawn(*image):
    module = layers(nn.BatchNorm1d(64, affine=False, track_running_stats=False))
    nn.init.xavier_uniform_(module[2].weight)
    nn.init.zeros_(module[2].bias)
    return module

BUILD = (frozen, tied, loaded, buffered, unknown, broken, twice, drawn)
MODELS = [ModelEntry(build.__name__, "one", "ours", build) for build in BUILD]
"""


@pytest.fixture
def plugin(tmp_path):
    (tmp_path / "own.py").write_text(MODELS)
    active.use([tmp_path / "own.py"])
    yield tmp_path / "own.py"
    active.use()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("frozen", r"1\.weight, 1\.bias .*requires_grad=False"),
        ("tied", r"1\.weight, 2\.weight are one tensor"),
        ("loaded", r"1\.weight would lose .*fedgrid draws all weights"),
        ("buffered", r"first values of 1\.mask;"),
        ("unknown", r"'LayerNorm'"),
        ("broken", r"FileNotFoundError: weights\.pt"),
    ],
)
def test_a_structure_that_would_be_lost_is_refused_by_name(plugin, name, says):
    with pytest.raises(ConfigError, match=rf"own\.py.*: model {name}: .*{says}"):
        complete({"model": name}, NOWHERE)


def test_a_layer_in_two_places_and_weights_that_the_model_draws_are_fine(plugin):
    for name in ("twice", "drawn"):
        assert complete({"model": name}, NOWHERE).model == name


@pytest.mark.parametrize("option", ["--in-process", "--dry-run"])
def test_nothing_is_started(plugin, tmp_path, option):
    storage = tmp_path / "runs"
    result = fedgrid(
        *("run", "--plugin", plugin, "--set", "model=tied", "--set", "training.rounds=1"),
        *(option, "--storage", storage),
    )
    assert (result.code, result.out) == (2, "")
    assert "model tied: 1.weight, 2.weight" in " ".join(result.err.split())
    assert not list(storage.glob("*-s0-*"))


def test_two_versions_of_a_model_have_an_answer_each(tmp_path):
    """The first has no buffers, which noise would not cover; the second has BatchNorm's."""
    file, noise = tmp_path / "own.py", [{"clip": 1.0}, {"noise": 1.0}]
    numbers = []
    for module in ("nn.Flatten()", "nn.Flatten(), nn.BatchNorm1d(64)"):
        file.write_text(MODEL.replace("nn.Flatten()", module))
        active.use([file])
        numbers.append(num_parameters("own-model", (1, (1, 8, 8), 10)))
        if len(numbers) == 1:
            complete({"model": "own-model", "uplink": noise}, NOWHERE)
    assert numbers == [650, 650 + 128]
    with pytest.raises(ConfigError, match=r"BatchNorm buffers \(1\.running_mean\)"):
        complete({"model": "own-model", "uplink": noise}, NOWHERE)
    active.use()
