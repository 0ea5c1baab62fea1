"""What no grid can be is refused in one line, which names the file, the line, the key and what is allowed."""

from pathlib import Path

import numpy as np
import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.load import load_grid

NOWHERE = Path("no-data-needed")
EPOCHS = "axes: {training.local_epochs: [1, 5]}\n"
TWO_DATASETS = "dataset: [mnist, cifar10]\nalgorithm: [fedavg, {name: sattler, cooldown: 5}]\n"


def refusal(what, *changes, options=None, **how):
    """Return the message with which a grid is refused."""
    with pytest.raises(ConfigError) as error:
        load_grid(what, options or {}, changes, NOWHERE, **how)
    assert "\n" not in str(error.value)
    return str(error.value)


def missing(message, parts):
    """Return the parts that a message lacks."""
    return [part for part in parts if part not in message]


def cases(*rows):
    """Parametrise a test by a text, and by the parts that its message must have."""
    return pytest.mark.parametrize(("text", "parts"), [(text, parts) for text, *parts in rows])


@cases(
    ("seed: 1\nsearch: {threshold: [0.1]}", "line 2", "fedgrid search mine.yaml"),
    ("seed: 1\ncleints: 3", "line 2", "'cleints'", "'clients'", "allowed: dataset, "),
    ("# why\ntraining:\n  batch_size: 8\n  rouns: 3", "line 4", "'rouns' in training", "'rounds'"),
    ("training:\n  rounds: -1", "line 2", "training.rounds = -1"),
    ("training:\n  rounds: 2.5", "line 2", "training.rounds = 2.5"),
    ("training:\n  - rounds: 3", "line 1", "training = [{'rounds': 3}]", "rounds"),
    ("seed: 1\ntraining:", "line 2", "training = None"),
    ("split: {draws: 5,\n  draw: 3}", "line 2", "'draw' in split", "'draws'"),
    ("dataset:\n- mnist\n- mnits", "line 3", "'mnits'", "'mnist'", "known: "),
    ("clients: [15,\n  2.5]", "line 2", "clients = 2.5"),
    ("clients: [15,\n  true]", "line 2", "clients = True"),
    ("seeds:\n  - 0\n  - x", "line 3", "seeds = 'x'", "0..4", "0,2,5"),
    ("seeds: 4..0", "line 1", "seeds = '4..0'", "ascends"),
    ("seeds: 0..9999999", "line 1", "seeds = '0..9999999'", "10000"),
    ("seeds:\n- 0\n- -1", "line 3", "seed = -1"),
    ("seed: 1\nseeds: 2", "line 2", "seed and seeds"),
    ("seed: 1\ndataset:", "line 2", "dataset has no value", "digits"),
    ("seed: 1\nsplit:\n  kind:", "line 3", "split has no value"),
    ("seed: 1\nalgorithm: fedavg, sattler", "line 2", "algorithm = 'fedavg, sattler'", "["),
    ("seed: 1\nname: mine", "line 2", "--name"),
    ("seed: 1\nsplit: []", "line 2", "split = []"),
    ("filter:\n  datset: digits", "line 2", "'datset'", "'dataset'"),
    (
        "dataset: [mnist, fmnist]\nfilter:\n  dataset:\n  - mnist\n  - mnits",
        "line 5",
        "'mnits'",
        "it has: mnist, ",
    ),
    ("filter: mnist", "line 1", "filter = 'mnist'", "dataset, split"),
    ("exclude: {clients: 30}", "line 1", "exclude = ", "a list"),
    ("overrides: {when: 1}", "line 1", "overrides = {'when': 1}", "a list"),
    ("exclude: [{clients: 45}]", "line 1", "clients '45'", "it has: 15"),
    ("exclude: [{}]", "line 1", "exclude", "clients"),
    ("seed: 1\nplugins: mine.py", "line 2", "plugins = "),
    ("seed: 1\nplugins: [1]", "line 2", "plugins"),
    ("seed: 1\nbase: papr", "line 2", "'papr'", "'paper'"),
    ("base: gone.yaml", "line 1", "gone.yaml", "quickstart"),
    ("base: quickstart.yaml", "line 1", "the preset quickstart"),
    ("base: mine.yaml", "line 1", "based on this one"),
    ("base: quickstart\nseed: 1\njoins:\n  15: 5", "line 3", "client 15", "14"),
    ("clients: 2", "line 1", "clients = 2", "3 clusters"),
    ("dataset: bloodmnist\nsplit:\n  num_clusters: 9", "line 3", "split.num_clusters = 9", "8"),
    (
        "split:\n  kind: nonoverlapping-imbalanced\n  proportions: published",
        "line 3",
        "'published'",
        "digits-15-",
    ),
    (
        "clients: 10\nsplit:\n  kind: majority\n  num_clusters: 3",
        "line 4",
        "split.num_clusters = 3",
        "2 hidden",
    ),
    (
        "split: {kind: [majority, rotated], majority: 0.7}",
        "line 1",
        "split.majority = 0.7",
        "only with: majority",
    ),
)
def test_key_or_value_is_refused_with_its_line(write, text, parts):
    assert missing(refusal(write(text)), ["mine.yaml, ", *parts]) == []


@cases(
    ("seed: 1\ntraining: {local_epochs: [1, 5]}", "`axes: {training.local_epochs: [1, 5]}`"),
    ("seed: 1\ntraining.local_epochs: [1, 5]", "`axes: {training.local_epochs: [1, 5]}`"),
    ("seed: 1\nmodel: [lenet5, tinyvgg]", "`axes: {model: [lenet5, tinyvgg]}`"),
    ("seed: 1\nsplit: {kind: dirichlet, alpha: [0.1, 1]}", "`axes: {split.alpha: [0.1, 1]}`"),
    ("seed: 1\nalgorithm: {name: sattler, cooldown: [5, 9]}", "`axes: {algorithm.cooldown: [5, 9]}`"),
    ("seed: 1\ntraining.local_epochs: 5", "`training: {local_epochs: 5}`"),
    (
        "seed: 1\nalgorithm.clusterer.num_clusters: 3",
        "`algorithm: {name: NAME, clusterer: {num_clusters: 3}}`",
    ),
    ("seed: 1\nsplit.kind: rotated", "`split: rotated`"),
    ("seed: 1\nsplit: {dirichlet: {alpha: 0.1}}", "`split: {kind: dirichlet, alpha: 0.1}`"),
    ("seed: 1\nalgorithm.name: sattler", "`algorithm: sattler`"),
    ("seed: 1\ntraining.rouns: 5", "'rouns' in training", "'rounds'"),
)
def test_what_stands_in_another_form_is_refused_with_the_line_to_write(write, text, parts):
    """A list in place of one value is an axis, and a key with dots a nested one."""
    assert missing(refusal(write(text)), ["mine.yaml, line 2: ", *parts]) == []


def test_a_list_that_is_wrong_itself_is_not_called_an_axis(write):
    assert "axes" not in refusal(write("seed: 1\nsplit: {sizes: [3, 3]}"))


@cases(
    ("ocfl-kmean", "line 4", "'ocfl-kmean'", "'ocfl-kmeans'"),
    ("{nmae: sattler}", "line 4", "name is missing", "fedavg"),
    ("name: sattler\n    cooldwn: 3", "line 5", "sattler", "'cooldwn'", "'cooldown'"),
    ("name: ocfl-kmeans\n    clusterer:\n      num_clusters: 0", "line 6", "clusterer.num_clusters = 0"),
    ("name: ocfl-kmeans\n    window: true", "line 5", "window = True", "a number"),
    ("{name: fedavg, local: [fedprox]}", "line 4", "fedavg", "local"),
    ("{name: ocfl-kmeans, window: 1.5}", "line 4", "window = 1.5"),
)
def test_algorithm_is_refused_with_its_line(write, text, parts):
    path = write(f"seed: 0\nalgorithm:\n  - fedavg\n  - {text}")
    assert missing(refusal(path), ["mine.yaml, ", *parts]) == []


@cases(
    ("when: {datset: mnist}\n    then: {model: tinyvgg}", "line 4", "'datset'", "'dataset'"),
    ("when: {dataset: fmnist}\n    then: {model: tinyvgg}", "line 4", "'fmnist'", "it has: mnist, cifar10"),
    (
        "when: {algorithm: [fedavg,\n      briggs]}\n    then: {model: tinyvgg}",
        "line 5",
        "'briggs'",
        "fedavg, sattler",
    ),
    ("when: {dataset: mnist}\n    then:\n      training: {rouns: 3}", "line 6", "'rouns' in training"),
    (
        "when: {dataset: mnist}\n    then:\n      trainig: {rounds: 3}",
        "line 6",
        "'trainig' in then",
        "'training'",
    ),
    ("when: {dataset: mnist}\n    then: {training: 3}", "line 5", "then.training = 3", "rounds"),
    (
        "when: {dataset: mnist}\n    then: {clients: 3}",
        "line 5",
        "clients in then",
        "allowed: algorithm, model",
    ),
    (
        "when: {dataset: mnist}\n    then: {algorithm: fedavg}",
        "line 5",
        "then.algorithm = 'fedavg'",
        "settings",
    ),
    (
        "when: {dataset: mnist}\n    then: {algorithm: {name: fedavg}}",
        "line 5",
        "then.algorithm = {'name'",
        "settings",
    ),
    ("when: {dataset: mnist}\n    then:\n      algorithm: {cooldown: 3}", "line 6", "fedavg", "'cooldown'"),
    ("when: {dataset: mnist}\n    than: {model: tinyvgg}", "line 5", "'than' in overrides", "'then'"),
    ("when: {dataset: mnist}", "line 4", "needs then:", "algorithm, model"),
    ("then: {model: tinyvgg}", "line 4", "needs when:", "dataset, split"),
    ("when: mnist\n    then: {model: tinyvgg}", "line 4", "when = 'mnist'"),
    ("mnist", "line 4", "overrides = 'mnist'", "when, then"),
)
def test_override_is_refused_with_its_line(write, text, parts):
    path = write(f"{TWO_DATASETS}overrides:\n  - {text}")
    assert missing(refusal(path), ["mine.yaml, ", *parts]) == []


@cases(
    ("axes:\n  training.local_epoch: [1]", "line 2", "'local_epoch'", "'local_epochs'", "batch_size"),
    ("seed: 0\naxes:\n  trainig.rounds: [1]", "line 3", "'trainig.rounds'", "'training.rounds'"),
    ("axes:\n  local_epochs: [1]", "line 2", "'local_epochs'", "'training.local_epochs'"),
    ("axes: {cleints: [3]}", "line 1", "'cleints'", "'clients'"),
    ("axes:\n  algorithm.cooldwn: [3]", "line 2", "'cooldwn'", "'cooldown'"),
    ("axes:\n  training: [3]", "line 2", "'training'", "training.rounds"),
    ("axes: [3]", "line 1", "axes = [3]", "seed"),
    ("axes:\n  training.rounds: []", "line 2", "training.rounds = []"),
    ("axes:\n  training.rounds:\n  - 3\n  - 0", "line 4", "training.rounds = 0"),
    ("axes:\n  model: [digitnet, vgg]", "line 2", "'vgg'", "'tinyvgg'"),
    ("axes:\n  algorithm.window: [3]\nalgorithm: fedavg", "line 2", "fedavg", "'window'"),
    ("seed: 0\naxes:\n  seed: [1]", "line 3", "seed"),
    ("axes:\n  seed: [1]\n  seeds: 0..3", "line 3", "seed and seeds"),
    ("training: {rounds: 3}\naxes:\n  training.rounds: [1]", "line 3", "training.rounds"),
    (EPOCHS + "filter:\n  training.local_epoch: 5", "line 3", "'training.local_epochs'"),
    (EPOCHS + "filter:\n  training.local_epochs: 6", "line 3", "no training.local_epochs '6'", "1, 5"),
    (
        EPOCHS + "overrides:\n- when: {training.rounds: 5}\n  then: {model: tinyvgg}",
        "line 3",
        "'training.rounds'",
    ),
    (
        EPOCHS + "overrides:\n- when: {seed: 0}\n  then:\n    training: {local_epochs: 5}",
        *("line 5", "training.local_epochs", "cannot change"),
    ),
    ("axes:\n  training.rounds: [3, 3]", "same run twice"),
)
def test_axis_is_refused_with_its_line(write, text, parts):
    assert missing(refusal(write(text)), parts) == []


def test_key_of_a_base_is_refused_with_the_file_of_the_base(write):
    write("seed: 0\ntraining: {rouns: 3}", "first.yaml")
    assert missing(refusal(write("base: first.yaml")), ["first.yaml, line 2: ", "'rouns'"]) == []


def test_merged_key_is_refused_with_the_line_where_it_was_written(write):
    """Line 3 merges what stands on line 2 in; the key is looked for among the mapping's own first."""
    text = "training:\n  &few {rounds: 3, batch_size: 0}\nevaluation: {<<: *few}"
    assert refusal(write(text)).startswith("mine.yaml, line 2: ")


def test_images_that_cannot_be_turned_are_refused_with_the_line_of_the_groups(write, tmp_path):
    """Before any image is read: the size is known from the file's header."""
    arrays = {f"{part}_images": np.zeros((2, 5, 4), np.uint8) for part in ("train", "test")}
    arrays |= {f"{part}_labels": np.array([0, 1]) for part in ("train", "test")}
    np.savez(tmp_path / "wide.npz", **arrays)
    path = write(f"dataset: npz:{tmp_path / 'wide.npz'}\nsplit: {{kind: rotated, num_clusters: 4}}")
    assert missing(refusal(path), ["line 2: split.num_clusters = 4", "1x5x4"]) == []


@cases(
    ("seed: 1\nclients: 3\nseed: 2", "not YAML: line 3", "duplicate key 'seed'"),
    ("seed: 0\nclients: [3", "not YAML: line 2"),
    ("seed: 2024-99-99", "not YAML", "month"),
    ("? [a]\n: 3", "not YAML: line 1"),
    ("training:\n\trounds: 3", "indent with spaces"),
    ("seed: 1\nclients:15", "a space after the colon"),
    ("dataset:digits", "a space after each colon"),
    ("\0", "plain text in UTF-8"),
    ("", "empty", "dataset:"),
    ("- fedavg\n- sattler", "not a list", "dataset:"),
    ("3", "not one", "dataset:"),
    # PyYAML would look at a million brackets for hours.
    (f"algorithm: {'[' * 150}fedavg{']' * 150}", "nested too deeply"),
    ("algorithm: " + "[" * 1_000_000, "nested too deeply"),
)
def test_text_that_is_no_mapping_in_yaml_is_refused_with_what_mends_it(write, text, parts):
    assert missing(refusal(write(text)), ["mine.yaml", *parts]) == []


def test_bytes_that_are_no_text_are_refused(write, tmp_path):
    path = write("")
    (tmp_path / path).write_bytes(b"dataset: \xff")
    assert "mine.yaml is not YAML" in refusal(path)


@cases(
    ("training.rounds", "expected KEY=VALUE", "training.rounds=5"),
    ("=5", "expected KEY=VALUE"),
    ("seed.first=5", "seed.first=5", "no keys"),
    ("seed=[0", "seed=[0 is not YAML"),
    ("training.round=5", "'round' in training", "'rounds'"),
    ("training.rounds=many", "training.rounds = 'many'"),
    ("training=5", "training = 5"),
    ("training=5,6", "'training'", "training.rounds"),
    ("training.rounds=5,", "training.rounds=5,", "comma"),
    ("training.rounds=5,5", "the same run twice: "),
    ("training.rounds=[]", "training.rounds = []"),
    ("rounds=5", "'rounds'"),
    ("algorithm.window=2", "algorithm fedavg", "'window'"),
    ("clients=2", "clients = 2", "3 clusters"),
    ("algorithms+=", "AXIS+=VALUES"),
    ("rounds+=5", "rounds+=5", "'rounds'"),
    ("algorithms+=fedavg", "already has algorithm fedavg"),
    ("algorithms+=louvian", "'louvian'", "'louvain'"),
    ("clients+=x", "clients = 'x'"),
    ("training.local_epochs+=5", "already has training.local_epochs 5"),
    ("training.local_epochs+=[1", "not YAML"),
    ("training.local_epochs+=0", "training.local_epochs = 0"),
    ("training.rounds+=5", "'training.rounds'"),
)
def test_change_is_refused_and_names_no_file(write, text, parts):
    message = refusal(write(f"algorithm: [ocfl-kmeans, fedavg]\n{EPOCHS}"), text)
    assert missing(message, parts) == []
    assert "mine.yaml" not in message


def test_another_clusterer_is_refused():
    message = refusal(None, "algorithm.clusterer=kmeans")
    assert missing(message, ["ocfl-hdbscan", "'hdbscan'", "'kmeans'"]) == []


@cases(
    ("datset=mnist", "--where datset=mnist", "'datset'", "'dataset'", "known: dataset, split"),
    ("dataset=mnits", "'mnits'", "'mnist'", "it has: mnist, fmnist"),
    ("clients=20", "clients '20'", "it has: 15, 30"),
    ("mnist", "--where mnist", "COLUMN=VALUE"),
    ("clients>15", "'>'", "finished runs only"),
    ("", "COLUMN=VALUE"),
    ("split.majority=1", "--where", "'split.majority'"),
)
def test_filter_is_refused(text, parts):
    assert missing(refusal("paper", filters=[text]), parts) == []


@pytest.mark.parametrize("seeds", ["4..0", "a", "-1"])
def test_option_seeds_is_refused(seeds):
    assert f"--seeds: seeds = '{seeds}'" in refusal("quickstart", seeds=seeds)


def test_grid_without_a_run_is_refused(write):
    filters = ["dataset=mnist", "dataset=fmnist"]
    assert missing(refusal("paper", filters=filters), ["no run is left", "fmnist", "only mnist"]) == []
    assert missing(refusal(write("exclude: [{clients: 15}]")), ["no run is left", "`exclude`"]) == []
    assert "seed = []" in refusal(None, options={"seed": []})


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": ["fedavg", "fedavg"]},
        {"seed": [0, 1, 0]},
        {"algorithm": ["ocfl-kmeans", {"name": "ocfl-kmeans", "window": 1}]},
    ],
)
def test_grid_with_the_same_run_twice_is_refused(options):
    assert missing(refusal(None, options=options), ["the same run twice: digits-15-", "repeats"]) == []


@cases(
    ("quikstart", "'quikstart'", "'quickstart'"),
    ("/nowhere/gone.yaml", "no file /nowhere/gone.yaml", "presets: quickstart"),
    ("mnist", "is a data set", "fedgrid run --dataset mnist"),
    ("folder:/tmp", "is a data set"),
    ("mine", "did you mean the file mine.yaml?"),
    ("mnist-15-overlaping-balanced", "'overlaping-balanced'", "'overlapping-balanced'"),
    ("mnits-15-overlapping-balanced", "'mnits'", "'mnist'"),
    ("mnist-overlapping-balanced-of-15", "DATASET-CLIENTS-SPLIT", "mnist-15-"),
)
def test_name_that_is_no_grid_is_refused(write, text, parts):
    write("dataset: digits")
    assert missing(refusal(text), parts) == []
