"""Models of plugins: any module, whose state is what trains and persistent buffers of floating numbers."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from fedgrid.algorithms.averaging.fedopt import FedOpt
from fedgrid.algorithms.contract.local_method import LOCAL_METHODS, LocalMethod
from fedgrid.algorithms.contract.local_rule import LocalRule
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import (
    FlatModule,
    build_blank,
    build_layout,
    draw_initial_vector,
)
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.plugins import active
from fedgrid.grids.planning.checks import find_output_notes
from tests.helpers.plugin_files import MODEL
from tests.helpers.small_grid import NOWHERE

MODELS = """
import random
from itertools import count

import numpy as np
import torch
from torch import nn
from fedgrid import ModelEntry

calls = count()

def layers(*more):
    return nn.Sequential(nn.Flatten(), *more, nn.Linear(64, 10))

def known(*image):
    return layers()

def plain(*image):
    return layers(nn.LayerNorm(64))

def tied(*image):
    module = layers(nn.Linear(64, 64), nn.Linear(64, 64))
    module[2].weight = module[1].weight
    return module

def frozen(*image):
    module = layers(nn.Linear(64, 64))
    module[1].requires_grad_(False)
    return module

class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers()
        self.register_buffer("seen", torch.full((1,), 5.0))
        self.register_buffer("order", torch.arange(64))
        self.register_buffer("table", torch.from_numpy(np.random.rand(64)).float(), persistent=False)

    def forward(self, images):
        if self.training:
            self.seen += 1
        return self.layers(images.flatten(1)[:, self.order] + self.table)

def buffered(*image):
    return Buffered()

def loaded(*image):
    module = layers()
    nn.init.constant_(module[1].weight, 0.5)
    return module

def twice(*image):
    layer = nn.Linear(64, 64)
    return layers(layer, nn.ReLU(), layer)

def drawn(*image):
    module = layers(nn.BatchNorm1d(64, affine=False, track_running_stats=False))
    nn.init.xavier_uniform_(module[2].weight)
    nn.init.zeros_(module[2].bias)
    return module

def counted(*image):
    module = layers(nn.LayerNorm(64))
    nn.init.constant_(module[1].weight, next(calls))
    return module

class Stepped(Buffered):
    def forward(self, images):
        self.order += self.training
        return self.layers(images)

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 10)

    def forward(self, images):
        return self.head(self.cell(images[:, 0])[0][:, -1])

class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, images):
        return self.layers(images - images.mean(0))

class Unused(Recurrent):
    def __init__(self):
        super().__init__()
        self.spare = nn.Identity()

class Noise(nn.Module):
    def forward(self, values):
        return torch.rand_like(values)

class Averaging(Noise):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(64, dtype=torch.float64))

def average(*image): return layers(Averaging())
def scripted(*image): return layers(torch.jit.script(nn.LayerNorm(64)))
def lazy(*image): return nn.Sequential(nn.Flatten(), nn.LazyLinear(10))
def double(*image): return layers(nn.Linear(64, 64).double())
def complicated(*image): return layers(nn.Linear(64, 64, dtype=torch.complex64))
def broken(*image): raise FileNotFoundError("weights.pt")
def wide(*image): return nn.Sequential(nn.Flatten(), nn.Linear(64, 11))
def fixed(*image): return layers().requires_grad_(False)
def two(*image): return nn.Sequential(nn.Flatten(), nn.LSTM(64, 10))
def noisy(*image): return layers(Noise())
def stepped(*image): return Stepped()
def recurrent(*image): return Recurrent()
def mixing(*image): return Mixing()

def softmaxed(*image): return nn.Sequential(layers(), nn.Softmax(dim=1))
def logarithm(*image): return nn.Sequential(layers(), nn.LogSoftmax(dim=1))

def constant(*image):
    module = layers()
    nn.init.zeros_(module[1].weight)
    nn.init.constant_(module[1].bias, 0.1)
    return module

BUILD = (known, plain, tied, frozen, buffered, loaded, twice, drawn, counted, lazy, double, complicated,
         broken, wide, fixed, two, noisy, stepped, recurrent, mixing, softmaxed, logarithm, average,
         scripted)
MODELS = [ModelEntry(build.__name__, "one", "ours", build) for build in BUILD]
MODELS += [ModelEntry(f"head-{place}", "one", "ours", plain, head=place) for place in ("0", "2", "fc")]
MODELS += [ModelEntry("head-unused", "one", "ours", module=lambda *_: Unused(), head="spare")]
MODELS += [ModelEntry(f"{one.__name__}-module", "one", "ours", module=one) for one in (loaded, frozen, drawn)]
MODELS += [ModelEntry("constant", "first rows add up to 1 by chance", "ours", module=constant)]
"""
ONE = """
from torch import nn
from fedgrid import ModelEntry

def one(*_):
    return nn.Sequential(nn.Linear(1, 1), nn.Softmax(dim=1))

MODELS = [ModelEntry("one", "1 for every row", "ours", module=one)]
"""
LINEAR, SQUARE = 64 * 10 + 10, 64 * 64


@pytest.fixture(autouse=True)
def plugin(tmp_path):
    (tmp_path / "own.py").write_text(MODELS)
    active.use_plugins([tmp_path / "own.py"])
    yield tmp_path / "own.py"
    active.use_plugins()


def of(name: str):
    return name, image_inputs(1, 8, 8), 10


@pytest.mark.parametrize(
    ("name", "parameters", "buffers"),
    [
        ("plain", LINEAR + 128, 0),
        ("tied", LINEAR + SQUARE + 2 * 64, 0),
        ("frozen", LINEAR, 0),
        ("frozen-module", LINEAR, 0),
        ("buffered", LINEAR, 1),
        ("loaded-module", LINEAR, 0),
        ("twice", LINEAR + SQUARE + 64, 0),
    ],
)
def test_the_state_is_what_trains_and_persistent_floating_buffers(name, parameters, buffers):
    assert (build_layout(*of(name)).num_parameters, build_layout(*of(name)).size) == (
        parameters,
        parameters + buffers,
    )


def test_a_module_keeps_its_own_values_and_its_constants_follow_the_seed():
    assert (draw_initial_vector(*of("loaded-module"), 3)[:-10] == 0.5).all()
    assert draw_initial_vector(*of("buffered"), 3)[-1] == 5
    assert (draw_initial_vector(*of("drawn-module"), 3)[-10:] == 0).all()
    tables = [build_blank(*of("buffered"), seed).table for seed in (3, 4)]
    assert not torch.equal(*tables)


def test_what_fedgrid_draws_is_the_same_beside_a_layer_that_it_does_not_know():
    assert (
        draw_initial_vector(*of("known"), 3).tobytes() == draw_initial_vector(*of("plain"), 3)[128:].tobytes()
    )


def test_frozen_parameters_do_not_move_and_own_buffers_are_sent():
    settings = LocalTraining(
        local_epochs=2, batch_size=4, optimizer="sgd", learning_rate=0.1, weight_decay=0.5
    )
    images, labels = torch.ones(8, 1, 8, 8, dtype=torch.uint8), torch.arange(8)
    for name, sent in (("frozen", []), ("buffered", [5 + 2 * 2])):
        module, before = build_blank(*of(name), 3), build_blank(*of(name), 3)
        start = draw_initial_vector(*of(name), 3)
        result = train_client(FlatModule(module), start, images, labels, settings, np.random.default_rng(0))
        size = build_layout(*of(name)).num_parameters
        assert (result.model[:size] != start[:size]).any()
        assert result.model[size:].tolist() == sent
        if name == "frozen":
            assert torch.equal(module[1].weight, before[1].weight)
        else:
            assert torch.equal(module.table, before.table)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lazy", r"1\.weight \(LazyLinear\)"),
        ("double", r"1\.weight \(Linear\) is float64.*\.float\(\), or freeze it$"),
        ("average", r"1\.mean \(Averaging\) is float64.*\.float\(\), or register_buffer.* stay as built$"),
        ("complicated", r"1\.weight \(Linear\) is complex64"),
        ("loaded", r"1\.weight would lose .*module="),
        ("counted", r"1\.weight is another one each time"),
        ("noisy", r"its output in tests is another one each time"),
        ("stepped", r"order changes in training"),
        ("two", r"its output in tests is tuple"),
        ("wide", r"\(3, 11\) of 3 images; expected \(3, 10\)"),
        ("fixed", r"none of its parameters trains"),
        ("broken", r"FileNotFoundError: weights\.pt"),
        ("head-fc", r"head='fc' is no module of it; its last one is '2'"),
        ("head-unused", r"head='spare' is given no features"),
    ],
)
def test_what_cannot_be_trained_is_refused_by_name(name, says):
    with pytest.raises(ConfigError, match=rf"own\.py.*: model {name}: .*{says}"):
        complete_config({"model": name}, NOWHERE)


class Featured(LocalMethod):
    name: str = "featured"

    def rule(self):
        return FeaturedRule()


class FeaturedRule(LocalRule):
    sees_features: ClassVar[bool] = True


def test_a_local_rule_that_sees_features_needs_a_head(monkeypatch):
    monkeypatch.setitem(LOCAL_METHODS, "featured", Featured)
    run = {"algorithm": {"name": "flis-dc", "local": {"name": "featured"}}, "split": {"reference_images": 20}}
    for model in ("digitnet", "head-2"):
        assert complete_config({**run, "model": model}, NOWHERE).model == model
    with pytest.raises(ConfigError, match=r"flis-dc: model plain names no head.*as in head='2'"):
        complete_config({**run, "model": "plain"}, NOWHERE)


def test_an_algorithm_knows_inputs_and_layout_before_the_start(monkeypatch):
    seen = []
    monkeypatch.setattr(FedOpt, "problem", lambda self, conditions: seen.append(conditions))
    complete_config({"model": "head-2"}, NOWHERE)
    [conditions] = seen
    assert (conditions.input_kind, conditions.input_shape) == ("pixels", (1, 8, 8))
    assert conditions.layout.ranges(conditions.layout.head_layers) == [(128, 128 + LINEAR)]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("recurrent", r"cell \(LSTM\) .*lstm"),
        ("mixing", "depend on others of their batch"),
        ("scripted", "1 is scripted"),
    ],
)
def test_what_cannot_be_stacked_is_refused_only_in_a_stack(name, says):
    assert complete_config({"model": name}, NOWHERE).model == name
    with pytest.raises(ConfigError, match=rf"model {name}: .*{says}.*training\.stacked=1"):
        complete_config({"model": name, "training": {"stacked": 2}}, NOWHERE)


@pytest.mark.parametrize("name", ["plain", "tied", "frozen", "buffered", "twice", "drawn"])
def test_other_modules_are_stacked(name):
    assert complete_config({"model": name, "training": {"stacked": 2}}, NOWHERE).model == name


@pytest.mark.parametrize("name", ["plain", "logarithm", "constant", "digitnet"])
def test_nothing_is_noted_on_logits(name):
    assert find_output_notes([complete_config({"model": name}, NOWHERE)], NOWHERE) == []


def test_probabilities_in_place_of_logits_are_noted():
    runs = [complete_config({"model": "softmaxed", "seed": seed}, NOWHERE) for seed in (0, 1)]
    [note] = find_output_notes(runs, NOWHERE)
    assert "model softmaxed returns probabilities" in note
    assert "leave out the softmax at its end" in note


def test_a_number_to_predict_is_no_probability(tmp_path):
    rows = [f"{row % 5},{row % 7}.5,s{row % 3}" for row in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["a,y,client", *rows]))
    (tmp_path / "one.py").write_text(ONE)
    active.use_plugins([tmp_path / "one.py"])
    config = complete_config({"dataset": f"csv:{tmp_path}/t.csv#target=y", "model": "one"}, tmp_path)
    assert find_output_notes([config], tmp_path) == []


def test_two_versions_of_a_model_have_an_answer_each(tmp_path):
    """The first has no buffers, which noise would not cover; the second has BatchNorm's."""
    file, noise = tmp_path / "own.py", [{"clip": 1.0}, {"noise": 1.0}]
    numbers = []
    for module in ("nn.Flatten()", "nn.Flatten(), nn.BatchNorm1d(64)"):
        file.write_text(MODEL.replace("nn.Flatten()", module))
        active.use_plugins([file])
        numbers.append(build_layout(*of("own-model")).num_parameters)
        if len(numbers) == 1:
            complete_config({"model": "own-model", "uplink": noise}, NOWHERE)
    assert numbers == [650, 650 + 128]
    with pytest.raises(ConfigError, match=r"BatchNorm does \(1\.running_mean\)"):
        complete_config({"model": "own-model", "uplink": noise}, NOWHERE)
    active.use_plugins()
