"""What a preset's YAML may say, and what a slip in it gets: file, line, key, and what is allowed."""

import re
from pathlib import Path

import pytest

from fedgrid.engine.errors import ConfigError
from fedgrid.grids.presets.grid import load_grid

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
    """Return a function that checks what a file's error is, from its first character on."""

    def check(text, message, *changes, **how):
        path = write(text)
        with pytest.raises(ConfigError, match="^" + re.escape(message)) as error:
            runs(path, *changes, **how)
        assert "\n" not in str(error.value)
        return str(error.value)

    return check


TWO_DATASETS = "dataset: [mnist, cifar10]\nalgorithm: [bnc, {name: sattler, cooldown: 5}]\n"
"""Two lines, four runs."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("seeds: 0..4", [0, 1, 2, 3, 4]),
        ("seeds: [0, 2, 5]", [0, 2, 5]),
        ("seeds: 3", [3]),
        ("seeds: 0,2,5", [0, 2, 5]),
        ("seeds: [0..2, 7]", [0, 1, 2, 7]),
        ("seed: 2..3", [2, 3]),
    ],
)
def test_seeds_are_a_range_or_a_list(write, given, expected):
    assert [run.seed for run in runs(write(given))] == expected


def test_a_filter_keeps_the_runs_with_these_values(write):
    path = write(TWO_DATASETS + "clients: [15, 30]\nfilter: {datasets: mnist, algorithm: [sattler]}")
    assert [run.name for run in runs(path)] == [
        "mnist-15-nonoverlapping-balanced-sattler-s0",
        "mnist-30-nonoverlapping-balanced-sattler-s0",
    ]


def test_an_override_changes_the_runs_where_all_of_its_axes_hold(write):
    path = write(
        TWO_DATASETS
        + "training: {batch_size: 8}\n"
        + "overrides:\n"
        + "  - when: {dataset: cifar10, algorithm: [sattler]}\n"
        + "    then: {training: {rounds: 9}, algorithm: {epsilon_1: 185}}\n"
    )
    rounds = {(run.dataset, run.algorithm["name"]): run.training.rounds for run in runs(path)}
    assert rounds == {
        ("mnist", "bnc"): 50,
        ("mnist", "sattler"): 50,
        ("cifar10", "bnc"): 80,
        ("cifar10", "sattler"): 9,
    }
    assert {run.training.batch_size for run in runs(path)} == {8}
    sattler = runs(path)[-1].algorithm
    assert (sattler["epsilon_1"], sattler["cooldown"]) == (185, 5)


def test_overrides_reach_any_depth(write):
    path = write(
        "algorithm: ocfl-kmeans\n"
        "overrides:\n"
        "  - {when: {clients: 15}, then: {algorithm: {clusterer: {num_clusters: 4}}, model: tinyvgg}}"
    )
    [run] = runs(path)
    assert run.algorithm["clusterer"] == {"name": "kmeans", "num_clusters": 4}
    assert run.model == "tinyvgg"


def test_of_several_overrides_the_last_wins_and_wins_over_the_axis_too(write):
    """The list says cooldown 5, the overrides 6 and then 7; epsilon_1 stays the first override's."""
    path = write(
        "algorithm: {name: sattler, cooldown: 5}\n"
        "overrides:\n"
        "  - {when: {algorithm: sattler}, then: {algorithm: {cooldown: 6, epsilon_1: 0.2}}}\n"
        "  - {when: {dataset: digits}, then: {algorithm: {cooldown: 7}}}\n"
    )
    [run] = runs(path)
    assert (run.algorithm["cooldown"], run.algorithm["epsilon_1"]) == (7, 0.2)
    [run] = runs(path, "algorithm.cooldown=8")
    assert run.algorithm["cooldown"] == 8


def test_an_override_may_speak_of_seeds(write):
    path = write("seeds: 0..3\noverrides: [{when: {seeds: 1..2}, then: {training: {rounds: 1}}}]")
    assert [run.training.rounds for run in runs(path)] == [15, 1, 1, 15]


def test_an_override_that_holds_no_more_after_options_is_no_error(write):
    path = write(TWO_DATASETS + "overrides: [{when: {dataset: cifar10}, then: {training: {rounds: 9}}}]")
    assert {run.training.rounds for run in runs(path, options={"dataset": "mnist"})} == {50}


def test_a_base_is_started_from_keys_replace_and_overrides_are_appended(write):
    write(
        "dataset: [mnist, fmnist]\nseeds: 0..1\ntraining: {rounds: 3}\n"
        "overrides: [{when: {dataset: fmnist}, then: {training: {rounds: 4, batch_size: 16}}}]\n",
        "first.yaml",
    )
    path = write(
        "base: first.yaml\nseed: 7\noverrides: [{when: {dataset: fmnist}, then: {training: {rounds: 5}}}]"
    )
    assert [(run.dataset, run.seed, run.training.rounds) for run in runs(path)] == [
        ("mnist", 7, 3),
        ("fmnist", 7, 5),
    ]
    assert runs(path)[-1].training.batch_size == 16


def test_a_base_is_looked_for_beside_the_file_and_may_be_a_preset(write, tmp_path):
    (tmp_path / "deeper").mkdir()
    write("base: quickstart\nseed: 3", "deeper/second.yaml")
    write("base: second.yaml\nalgorithm: bnc", "deeper/third.yaml")
    [run] = runs("deeper/third.yaml")
    assert (run.name, run.training.rounds) == ("digits-15-nonoverlapping-balanced-bnc-s3", 15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\ncleints: 3", "line 2: unknown key 'cleints'; did you mean 'clients'? allowed: dataset, "),
        ("seed: 1\noverides: 3", "line 2: unknown key 'overides'; did you mean 'overrides'? allowed: "),
        (
            "# why\ntraining:\n  batch_size: 8\n  rouns: 3",
            "line 4: unknown key 'rouns' in training; did you mean 'rounds'? allowed: rounds, local_epochs",
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
        ("seeds: 4..0", "line 1: seeds = '4..0': a range goes up, by less than 10000, as in 0..4"),
        ("seeds: 0..9999999", "line 1: seeds = '0..9999999': a range goes up, by less than 10000"),
        ("seeds:\n- 0\n- -1", "line 3: seed = -1: input should be greater than or equal to 0"),
        ("seed: 1\nseeds: 2", "line 2: seed and seeds both stand there; leave one out"),
        ("seed: 1\noverlap: []", "line 2: overlap = []: expected at least one"),
        ("filter:\n  datset: digits", "line 2: unknown axis 'datset'; did you mean 'dataset'? known: "),
        (
            "dataset: [mnist, fmnist]\nfilter:\n  dataset:\n  - mnist\n  - mnits",
            "line 5: no dataset 'mnits' in this grid; did you mean 'mnist'? it has: mnist, fmnist",
        ),
        ("filter: mnist", "line 1: filter = 'mnist': expected keys such as dataset, overlap, balance"),
        ("seed: 1\nbase: papr", "line 2: unknown preset 'papr'; did you mean 'paper'? known: quickstart"),
        ("base: gone.yaml", "line 1: no file gone.yaml; presets: quickstart"),
        ("base: mine.yaml", "line 1: base = mine.yaml: that file is based on this one"),
    ],
)
def test_a_slip_is_refused_with_its_line(refused, text, message):
    refused(text, f"mine.yaml, {message}")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("ocfl-kmean", "line 4: unknown algorithm 'ocfl-kmean'; did you mean 'ocfl-kmeans'? known: bnc"),
        ("{nmae: sattler}", "line 4: algorithm = {'nmae': 'sattler'}: name is missing; known: bnc, "),
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
        ("{name: ocfl-kmeans, window: 1.5}", "line 4: algorithm ocfl-kmeans: window = 1.5: input should be"),
    ],
)
def test_a_slip_in_an_algorithm_is_refused_with_its_line(refused, entry, message):
    refused(f"seed: 0\nalgorithm:\n  - bnc\n  - {entry}", f"mine.yaml, {message}")


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
            "when: {algorithm: [bnc,\n      briggs]}\n    then: {model: tinyvgg}",
            "line 5: no algorithm 'briggs' in this grid; it has: bnc, sattler",
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
            "line 5: then.training = 3: expected keys such as rounds, local_epochs, batch_size",
        ),
        (
            "when: {dataset: mnist}\n    then: {clients: 3}",
            "line 5: clients in then: an axis cannot change; allowed: algorithm, model, training",
        ),
        (
            "when: {dataset: mnist}\n    then: {algorithm: bnc}",
            "line 5: then.algorithm = 'bnc': expected settings only, as in {cooldown: 40}",
        ),
        (
            "when: {dataset: mnist}\n    then: {algorithm: {name: bnc}}",
            "line 5: then.algorithm = {'name': 'bnc'}: expected settings only",
        ),
        (
            "when: {dataset: mnist}\n    then:\n      algorithm: {cooldown: 3}",
            "line 6: algorithm bnc: unknown key 'cooldown'; allowed: ",
        ),
        (
            "when: {dataset: mnist}\n    than: {model: tinyvgg}",
            "line 5: unknown key 'than' in overrides; did you mean 'then'? allowed: when, then",
        ),
        ("when: {dataset: mnist}", "line 4: an override needs then: with keys such as algorithm, model"),
        ("then: {model: tinyvgg}", "line 4: an override needs when: with keys such as dataset, overlap"),
        ("when: mnist\n    then: {model: tinyvgg}", "line 4: when = 'mnist': expected keys such as dataset"),
        ("mnist", "line 4: overrides = 'mnist': expected keys such as when, then"),
    ],
)
def test_a_slip_in_an_override_is_refused_with_its_line(refused, override, message):
    refused(f"{TWO_DATASETS}overrides:\n  - {override}", f"mine.yaml, {message}")


def test_overrides_are_a_list(refused):
    refused("seed: 0\noverrides: {when: 1}", "mine.yaml, line 2: overrides = {'when': 1}: expected a list of")


@pytest.mark.parametrize(
    "text",
    [
        "dataset:\n- mnist\n- mnits\nfilter: {dataset: mnist}",
        TWO_DATASETS + "overrides:\n- when: {dataset: cifar10}\n  then: {training: {rouns: 3}}\n",
    ],
)
def test_a_slip_is_found_where_a_filter_leaves_its_runs_out(refused, text):
    assert re.match(r"mine\.yaml, line [35]: unknown", refused(text, "mine", filters=["dataset=mnist"]))


def test_a_slip_in_a_base_names_the_base(refused, write):
    write("seed: 0\ntraining: {rouns: 3}", "first.yaml")
    refused("base: first.yaml", "first.yaml, line 2: unknown key 'rouns' in training")


def test_own_images_need_not_be_here_if_options_replace_them(write):
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
            "balance: imbalanced\nsplit:\n  proportions: published",
            "line 3: split.proportions 'published' has no class shares for 'digits-15-nonoverlapping-imbalan",
        ),
    ],
)
def test_a_split_that_asks_for_more_than_there_is_is_refused_without_the_images(refused, text, message):
    refused(text, f"mine.yaml, {message}")


def test_what_the_command_line_got_wrong_names_no_file(refused):
    good = "algorithm: [bnc, sattler]\nclients: 15\ntraining: {rounds: 3}"
    refused(good, "unknown key 'rouns' in training", "training.rouns=3")
    refused(good, "training.rounds = 0: ", "training.rounds=0")
    refused(good, "algorithm bnc: unknown key 'cooldown'", "algorithm.cooldown=3")
    refused(good, "clients = 0: ", options={"clients": 0})
    refused(good, "clients = 2: 3 clusters need at least 3 clients", options={"clients": 2})
    refused(good, "split.num_clusters = 20: 20 clusters need", "split.num_clusters=20")
    refused(good, "unknown algorithm 'louvian'", extends=["algorithms+=louvian"])


def test_a_merged_key_is_named_where_it_was_written(refused):
    """Line 3 merges what stands on line 2 in; the key is looked for among the mapping's own first."""
    text = "training:\n  &few {rounds: 3, batch_size: 0}\nevaluation: {<<: *few}"
    refused(text, "mine.yaml, line 2: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed: 1\nclients: 3\nseed: 2", "mine.yaml is not YAML: line 3: 'seed' stands there twice"),
        ("seed: 0\nclients: [3", "mine.yaml is not YAML: line 2: "),
        ("seed: 2024-99-99", "mine.yaml is not YAML: month must be in 1..12"),
        ("? [a]\n: 3", "mine.yaml is not YAML: line 1: "),
    ],
)
def test_what_is_not_yaml_names_the_line(refused, text, message):
    refused(text, message)
