"""Errors in a preset's YAML: they name file, line, key and the allowed values."""

import re
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.load import load_grid

NOWHERE = Path("no-data-needed")


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write_file(text, name="mine.yaml"):
        (tmp_path / name).write_text(text)
        return name

    return write_file


def runs(what, *changes, **how):
    return load_grid(what, how.pop("options", {}), changes, NOWHERE, **how).runs


@pytest.fixture
def refused(write):
    """Return a function that checks how the error of a file begins."""

    def check(text, message, *changes, **how):
        path = write(text)
        with pytest.raises(ConfigError, match="^" + re.escape(message)) as error:
            runs(path, *changes, **how)
        assert "\n" not in str(error.value)
        return str(error.value)

    return check


TWO_DATASETS = "dataset: [mnist, cifar10]\nalgorithm: [fedavg, {name: sattler, cooldown: 5}]\n"
"""Two lines, four runs."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "seed: 1\nsearch: {threshold: [0.1]}",
            "line 2: this file is a search: `fedgrid search mine.yaml` runs it",
        ),
        ("seed: 1\ncleints: 3", "line 2: unknown key 'cleints'; did you mean 'clients'? allowed: dataset, "),
        ("seed: 1\noverides: 3", "line 2: unknown key 'overides'; did you mean 'overrides'? allowed: "),
        (
            "# why\ntraining:\n  batch_size: 8\n  rouns: 3",
            "line 4: unknown key 'rouns' in training; did you mean 'rounds'? allowed: rounds, stop_after",
        ),
        ("training:\n  rounds: -1", "line 2: training.rounds = -1: input should be greater than 0"),
        ("training:\n  rounds: 2.5", "line 2: training.rounds = 2.5: input should be a valid integer"),
        ("training:\n  - rounds: 3", "line 1: training = [{'rounds': 3}]: expected keys such as rounds"),
        ("seed: 1\ntraining:", "line 2: training = None: expected keys such as rounds"),
        ("split: {draws: 5,\n  draw: 3}", "line 2: unknown key 'draw' in split; did you mean 'draws'?"),
        ("seed: 1\nmodel: vgg", "line 2: unknown model 'vgg'; did you mean 'tinyvgg'?"),
        ("dataset:\n- mnist\n- mnits", "line 3: unknown dataset 'mnits'; did you mean 'mnist'? known: "),
        ("clients: [15,\n  2.5]", "line 2: clients = 2.5: input should be a valid integer"),
        ("clients: [15,\n  true]", "line 2: clients = True: input should be a valid integer"),
        ("seeds:\n  - 0\n  - x", "line 3: seeds = 'x': expected 0..4 (both included), 3 or 0,2,5"),
        ("seeds: 4..0", "line 1: seeds = '4..0': a range ascends, by less than 10000, as in 0..4"),
        ("seeds: 0..9999999", "line 1: seeds = '0..9999999': a range ascends, by less than 10000"),
        ("seeds:\n- 0\n- -1", "line 3: seed = -1: input should be greater than or equal to 0"),
        ("seed: 1\nseeds: 2", "line 2: seed and seeds"),
        ("seed: 1\ndataset:", "line 2: dataset has no value; give one, or leave it out for digits"),
        ("seed: 1\nseeds:", "line 2: seeds has no value"),
        ("seed: 1\nsplit:\n  kind:", "line 3: split has no value"),
        ("seed: 1\ndataset: MNIST", "line 2: unknown dataset 'MNIST'; did you mean 'mnist'?"),
        (
            "seed: 1\nalgorithm: fedavg, sattler",
            "line 2: algorithm = 'fedavg, sattler': several are a list: [",
        ),
        ("seed: 1\nname: mine", "line 2: a grid has the name of its file, or that of --name"),
        ("base: quickstart.yaml", "line 1: no file quickstart.yaml; did you mean the preset quickstart?"),
        ("seed: 1\nsplit: []", "line 2: split = []: expected at least one"),
        ("filter:\n  datset: digits", "line 2: unknown axis 'datset'; did you mean 'dataset'? known: "),
        (
            "dataset: [mnist, fmnist]\nfilter:\n  dataset:\n  - mnist\n  - mnits",
            "line 5: no dataset 'mnits' in this grid; did you mean 'mnist'? it has: mnist, fmnist",
        ),
        ("filter: mnist", "line 1: filter = 'mnist': expected keys such as dataset, split, clients"),
        ("seed: 1\nbase: papr", "line 2: unknown preset 'papr'; did you mean 'paper'? known: quickstart"),
        ("base: gone.yaml", "line 1: no file gone.yaml; presets: quickstart"),
        ("base: mine.yaml", "line 1: base = mine.yaml: that file is based on this one"),
    ],
)
def test_an_invalid_key_or_value_is_refused_with_its_line(refused, text, message):
    refused(text, f"mine.yaml, {message}")


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("training:\n\trounds: 3", "indent with spaces"),
        ("seed: 1\nclients:15", "a space after the colon"),
        ("dataset:digits", "a space after each colon"),
        ("\0", "plain text in UTF-8"),
    ],
)
def test_text_that_is_no_yaml_is_answered_with_what_mends_it(refused, text, advice):
    assert advice in refused(text, "mine.yaml")


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("seed: 1\ntraining: {local_epochs: [1, 5]}", "training.local_epochs: [1, 5]"),
        ("seed: 1\ntraining.local_epochs: [1, 5]", "training.local_epochs: [1, 5]"),
        ("seed: 1\nmodel: [lenet5, tinyvgg]", "model: [lenet5, tinyvgg]"),
        ("seed: 1\nsplit: {kind: dirichlet, alpha: [0.1, 1]}", "split.alpha: [0.1, 1]"),
        ("seed: 1\nalgorithm: {name: sattler, cooldown: [5, 9]}", "algorithm.cooldown: [5, 9]"),
    ],
)
def test_a_list_in_place_of_one_value_names_the_axis_to_write(refused, text, axes):
    assert f"`axes: {{{axes}}}`" in refused(text, "mine.yaml, line 2: ")


def test_a_list_that_is_wrong_itself_is_not_called_an_axis(refused):
    assert "axes" not in refused("seed: 1\nsplit: {sizes: [3, 3]}", "mine.yaml, line 2: split.sizes = [3, 3]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.local_epochs: 5", "`training: {local_epochs: 5}`"),
        ("algorithm.clusterer.num_clusters: 3", "`algorithm: {name: NAME, clusterer: {num_clusters: 3}}`"),
        ("split.kind: rotated", "`split: rotated`"),
        ("split: {dirichlet: {alpha: 0.1}}", "`split: {kind: dirichlet, alpha: 0.1}`"),
        ("algorithm.name: sattler", "`algorithm: sattler`"),
        ("training.rouns: 5", "'rouns' in training; did you mean 'rounds'?"),
    ],
)
def test_a_key_with_dots_is_answered_with_the_line_to_write(refused, text, message):
    assert message in refused(f"seed: 1\n{text}", "mine.yaml, line 2: ")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("ocfl-kmean", "line 4: unknown algorithm 'ocfl-kmean'; did you mean 'ocfl-kmeans'? known: fedavg"),
        ("{nmae: sattler}", "line 4: algorithm = {'nmae': 'sattler'}: name is missing; known: fedavg, "),
        (
            "name: sattler\n    cooldwn: 3",
            "line 5: algorithm sattler: unknown key 'cooldwn'; did you mean 'cooldown'? allowed: ",
        ),
        (
            "name: ocfl-kmeans\n    clusterer:\n      num_clusters: 0",
            "line 6: algorithm ocfl-kmeans: clusterer.num_clusters = 0: input should be greater than 0",
        ),
        (
            "name: ocfl-kmeans\n    window: true",
            "line 5: algorithm ocfl-kmeans: window = True: input should be a number, not true or false",
        ),
        ("{name: fedavg, local: [fedprox]}", "line 4: algorithm fedavg: local: unknown local training ["),
        ("{name: ocfl-kmeans, window: 1.5}", "line 4: algorithm ocfl-kmeans: window = 1.5: input should be"),
    ],
)
def test_an_invalid_algorithm_is_refused_with_its_line(refused, entry, message):
    refused(f"seed: 0\nalgorithm:\n  - fedavg\n  - {entry}", f"mine.yaml, {message}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "when: {datset: mnist}\n    then: {model: tinyvgg}",
            "line 4: unknown axis 'datset'; did you mean 'dataset'?",
        ),
        (
            "when: {dataset: fmnist}\n    then: {model: tinyvgg}",
            "line 4: no dataset 'fmnist' in this grid; did you mean 'mnist'? it has: mnist, cifar10",
        ),
        (
            "when: {algorithm: [fedavg,\n      briggs]}\n    then: {model: tinyvgg}",
            "line 5: no algorithm 'briggs' in this grid; it has: fedavg, sattler",
        ),
        (
            "when: {dataset: mnist}\n    then:\n      training: {rouns: 3}",
            "line 6: unknown key 'rouns' in training; did you mean 'rounds'? allowed: rounds, ",
        ),
        (
            "when: {dataset: mnist}\n    then:\n      trainig: {rounds: 3}",
            "line 6: unknown key 'trainig' in then; did you mean 'training'? allowed: algorithm, model, ",
        ),
        (
            "when: {dataset: mnist}\n    then: {training: 3}",
            "line 5: then.training = 3: expected keys such as rounds, stop_after, local_epochs",
        ),
        (
            "when: {dataset: mnist}\n    then: {clients: 3}",
            "line 5: clients in then: an axis cannot change; allowed: algorithm, model, training",
        ),
        (
            "when: {dataset: mnist}\n    then: {algorithm: fedavg}",
            "line 5: then.algorithm = 'fedavg': expected settings only, as in {cooldown: 40}",
        ),
        (
            "when: {dataset: mnist}\n    then: {algorithm: {name: fedavg}}",
            "line 5: then.algorithm = {'name': 'fedavg'}: expected settings only",
        ),
        (
            "when: {dataset: mnist}\n    then:\n      algorithm: {cooldown: 3}",
            "line 6: algorithm fedavg: unknown key 'cooldown'; allowed: ",
        ),
        (
            "when: {dataset: mnist}\n    than: {model: tinyvgg}",
            "line 5: unknown key 'than' in overrides; did you mean 'then'? allowed: when, then",
        ),
        ("when: {dataset: mnist}", "line 4: an override needs then: with keys such as algorithm, model"),
        ("then: {model: tinyvgg}", "line 4: an override needs when: with keys such as dataset, split"),
        ("when: mnist\n    then: {model: tinyvgg}", "line 4: when = 'mnist': expected keys such as dataset"),
        ("mnist", "line 4: overrides = 'mnist': expected keys such as when, then"),
    ],
)
def test_an_invalid_override_is_refused_with_its_line(refused, override, message):
    refused(f"{TWO_DATASETS}overrides:\n  - {override}", f"mine.yaml, {message}")


def test_overrides_that_are_no_list_are_refused(refused):
    refused("seed: 0\noverrides: {when: 1}", "mine.yaml, line 2: overrides = {'when': 1}: expected a list of")


def test_an_invalid_key_in_a_base_names_the_file_of_the_base(refused, write):
    write("seed: 0\ntraining: {rouns: 3}", "first.yaml")
    refused("base: first.yaml", "first.yaml, line 2: unknown key 'rouns' in training")


def test_missing_images_are_no_error_if_an_option_replaces_the_data_set(write):
    [run] = runs(write("dataset: folder:gone"), options={"dataset": "mnist"})
    assert run.dataset == "mnist"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clients: 2", "line 1: clients = 2: 3 clusters need at least 3 clients, not 2; take fewer clusters"),
        (
            "dataset: bloodmnist\nsplit:\n  num_clusters: 9",
            "line 3: split.num_clusters = 9: 9 clusters need at least 9 classes, the data set has 8; take",
        ),
        (
            "split:\n  kind: nonoverlapping-imbalanced\n  proportions: published",
            "line 3: split.proportions 'published' has no class shares for 'digits-15-nonoverlapping-imbalan",
        ),
    ],
)
def test_a_split_that_the_data_set_cannot_fill_is_refused_without_the_images(refused, text, message):
    refused(text, f"mine.yaml, {message}")


def test_an_error_of_the_command_line_names_no_file(refused):
    good = "algorithm: [fedavg, sattler]\nclients: 15\ntraining: {rounds: 3}"
    refused(good, "unknown key 'rouns' in training", "training.rouns=3")
    refused(good, "training.rounds = 0: ", "training.rounds=0")
    refused(good, "algorithm fedavg: unknown key 'cooldown'", "algorithm.cooldown=3")
    refused(good, "clients = 0: ", options={"clients": 0})
    refused(good, "clients = 2: 3 clusters need at least 3 clients", options={"clients": 2})
    refused(good, "split.num_clusters = 20: 20 clusters need", "split.num_clusters=20")
    refused(good, "unknown algorithm 'louvian'", "algorithms+=louvian")


def test_a_merged_key_is_refused_with_the_line_where_it_was_written(refused):
    """Line 3 merges what stands on line 2 in; the key is looked for among the mapping's own first."""
    text = "training:\n  &few {rounds: 3, batch_size: 0}\nevaluation: {<<: *few}"
    refused(text, "mine.yaml, line 2: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nclients: 3\nseed: 2", "mine.yaml is not YAML: line 3: duplicate key 'seed'"),
        ("seed: 0\nclients: [3", "mine.yaml is not YAML: line 2: "),
        ("seed: 2024-99-99", "mine.yaml is not YAML: month must be in 1..12"),
        ("? [a]\n: 3", "mine.yaml is not YAML: line 1: "),
    ],
)
def test_invalid_yaml_is_refused_with_its_line(refused, text, message):
    refused(text, message)


@pytest.mark.parametrize(
    "text", [f"algorithm: {'[' * 150}fedavg{']' * 150}", "algorithm: " + "[" * 1_000_000]
)
def test_deep_nesting_is_refused_before_it_takes_time(write, text):
    """PyYAML would look at a million brackets for hours."""
    with pytest.raises(ConfigError, match=r"^mine.yaml: lists and keys are nested too deeply"):
        runs(write(text))
