"""Errors in the axes of a grid: they name key, line and the closest allowed key."""

from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.load import load_grid

NOWHERE = Path("no-data-needed")
EPOCHS = "axes: {training.local_epochs: [1, 5]}\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_file(text, name="mine.yaml"):
        (tmp_path / name).write_text(text)
        return name

    return write_file


@pytest.fixture
def refused(write):
    """Return a function that checks that a file is refused with a message that names all of `parts`."""

    def check(text, *parts, changes=(), **how):
        path = write(text)
        with pytest.raises(ConfigError) as error:
            load_grid(path, {}, changes, NOWHERE, **how)
        message = str(error.value)
        assert "\n" not in message
        assert [part for part in parts if part not in message] == []

    return check


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("axes:\n  training.local_epoch: [1]", ["line 2", "'local_epoch'", "'local_epochs'", "batch_size"]),
        ("seed: 0\naxes:\n  trainig.rounds: [1]", ["line 3", "'trainig.rounds'", "'training.rounds'"]),
        ("axes:\n  local_epochs: [1]", ["line 2", "'local_epochs'", "'training.local_epochs'"]),
        ("axes: {cleints: [3]}", ["line 1", "'cleints'", "'clients'"]),
        ("axes:\n  algorithm.cooldwn: [3]", ["line 2", "'cooldwn'", "'cooldown'"]),
        ("axes:\n  training: [3]", ["line 2", "'training'", "training.rounds"]),
        ("axes: [3]", ["line 1", "axes = [3]", "seed"]),
        ("axes:\n  training.rounds: []", ["line 2", "training.rounds = []"]),
        ("axes:\n  training.rounds:\n  - 3\n  - 0", ["line 4", "training.rounds = 0"]),
        ("axes:\n  training.rounds: [3, many]", ["line 2", "training.rounds = 'many'"]),
        ("axes:\n  model: [digitnet, vgg]", ["line 2", "'vgg'", "'tinyvgg'"]),
        ("axes:\n  algorithm.window: [3]\nalgorithm: fedavg", ["line 2", "fedavg", "'window'"]),
        ("seed: 0\naxes:\n  seed: [1]", ["line 3", "seed"]),
        ("axes:\n  seed: [1]\n  seeds: 0..3", ["line 3", "seed and seeds"]),
        ("training: {rounds: 3}\naxes:\n  training.rounds: [1]", ["line 3", "training.rounds"]),
        ("model: digitnet\naxes:\n  model: [digitnet]", ["line 3", "model"]),
        (EPOCHS + "filter:\n  training.local_epoch: 5", ["line 3", "'training.local_epochs'"]),
        (EPOCHS + "filter:\n  training.local_epochs: 6", ["line 3", "no training.local_epochs '6'", "1, 5"]),
        (
            EPOCHS + "overrides:\n- when: {training.rounds: 5}\n  then: {model: tinyvgg}",
            ["line 3", "'training.rounds'", "training.local_epochs"],
        ),
        (
            EPOCHS + "overrides:\n- when: {seed: 0}\n  then:\n    training: {local_epochs: 5}",
            ["line 5", "training.local_epochs", "cannot change"],
        ),
        ("axes:\n  training.rounds: [3, 3]", ["same run twice"]),
    ],
)
def test_a_wrong_axis_is_refused_with_key_line_and_the_closest_key(refused, text, parts):
    refused(text, *parts)


@pytest.mark.parametrize(
    ("how", "parts"),
    [
        (
            {"filters": ["training.local_epoch=5"]},
            ["--where", "'training.local_epoch'", "'training.local_epochs'"],
        ),
        ({"filters": ["training.local_epochs=6"]}, ["--where", "'6'", "1, 5"]),
        ({"filters": ["split.majority=1"]}, ["--where", "'split.majority'"]),
        ({"changes": ["training.local_epochs+=5"]}, ["already has training.local_epochs 5"]),
        ({"changes": ["training.local_epochs+=[1"]}, ["not YAML"]),
        ({"changes": ["training.local_epochs+=0"]}, ["training.local_epochs = 0"]),
        ({"changes": ["training.rounds+=5"]}, ["'training.rounds'"]),
    ],
)
def test_a_wrong_filter_or_extension_is_refused(refused, how, parts):
    refused(EPOCHS, *parts, **how)
