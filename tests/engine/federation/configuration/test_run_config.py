"""A run's configuration: defaults are filled in, misspelt keys are refused in one line."""

import json
import re
from pathlib import Path

import pytest
import yaml

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.configuration import run_config
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError, DataError
from fedgrid.engine.federation.format import FORMAT
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.federation.training.settings import Evaluation, Training
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from tests.helpers.small_runs import choose_optimizer, choose_references

NOWHERE = Path("no-data-needed")


def run(**given):
    return complete_config(given, NOWHERE)


@pytest.mark.parametrize(
    ("dataset", "model", "expected"),
    [
        ("digits", "digitnet", ("sgd", 0.1, 32, 15)),
        ("mnist", "tinyvgg", ("sgd", 1e-2, 32, 50)),
        ("fmnist", "tinyvgg", ("sgd", 1e-2, 32, 50)),
        ("cifar10", "resnet34", ("sgd", 1e-2, 64, 80)),
        ("pathmnist", "resnet34", ("adam", 1e-3, 128, 75)),
        ("bloodmnist", "resnet34", ("adam", 1e-3, 128, 75)),
    ],
)
def test_each_data_set_brings_its_model_and_training(dataset, model, expected):
    """Optimizer, learning rate, batch, rounds, and three local epochs, as in Table 3 of the OCFL papers.

    But for MedMNIST: optimizer, learning rate and batch of MedMNIST's released benchmark.
    """
    config = run(dataset=dataset)
    training = config.training
    assert config.model == model
    assert (training.optimizer, training.learning_rate, training.batch_size, training.rounds) == expected
    assert (training.local_epochs, training.weight_decay, training.momentum) == (3, 0, 0)
    assert not training.keep_optimizer_state


def test_given_values_replace_their_defaults_only():
    config = run(dataset="mnist", model="digitnet", training={"rounds": 5})
    assert config.model == "digitnet"
    assert config.training == run(dataset="mnist").training.model_copy(update={"rounds": 5})


def test_an_algorithms_settings_can_be_changed_at_any_depth():
    plain = run(algorithm="ocfl-kmeans").algorithm
    assert (plain.window, plain.clusterer) == (1, {"name": "kmeans", "num_clusters": 3})
    config = run(algorithm={"name": "ocfl-kmeans", "window": 4, "clusterer": {"num_clusters": 5}})
    assert config.algorithm.window == 4
    assert config.algorithm.clusterer == {"name": "kmeans", "num_clusters": 5}
    assert build_algorithm(config).settings.clusterer.num_clusters == 5


def test_settings_are_parsed_once_for_all_runs_that_have_them():
    stored = RunConfig.model_validate_json(run(seed=2).canonical_json())
    assert (
        build_algorithm(run(seed=1))
        is build_algorithm(stored)
        is not build_algorithm(run(algorithm="fedavg"))
    )


@pytest.mark.parametrize("name", ["evident-groups", "fine-tuned"])
def test_default_that_an_algorithm_changes_can_be_taken_back(name):
    """Both fine-tune for 45 steps; the class that has the key does not, and leaves 0 out when written."""
    plain, tuned = (run(algorithm={"name": name, "fine_tune": steps}) for steps in (0, 45))
    stored = RunConfig.model_validate_json(plain.canonical_json())
    assert build_algorithm(stored).settings.fine_tune == 0
    assert stored.run_id == plain.run_id != tuned.run_id == run(algorithm=name).run_id


def test_a_run_is_named_readably():
    config = run(dataset="mnist", split="overlapping-imbalanced")
    assert config.scenario == "mnist-15-overlapping-imbalanced"
    assert config.name == "mnist-15-overlapping-imbalanced-ocfl_hdbscan-s0"
    assert re.fullmatch("[0-9a-f]{12}", config.run_id)


class TestRootSeed:
    def test_algorithms_of_a_scenario_and_seed_share_it(self):
        one, other = (
            run(algorithm="fedavg"),
            run(algorithm="sattler", training={"rounds": 3}, participation=0.5),
        )
        assert one.root_seed == other.root_seed

    @pytest.mark.parametrize(
        "changed",
        [
            {"dataset": "mnist"},
            {"clients": 30},
            {"split": "overlapping-balanced"},
            {"split": "nonoverlapping-imbalanced"},
            {"seed": 1},
        ],
        ids=json.dumps,
    )
    def test_another_scenario_or_seed_has_another_one(self, changed):
        assert run(**changed).root_seed != run().root_seed

    def test_own_images_keep_it_wherever_they_lie(self):
        one, moved, other = (
            run().model_copy(update={"dataset": f"folder:{path}"})
            for path in ("/data/cats", "/mnt/cats", "/data/dogs")
        )
        assert one.root_seed == moved.root_seed != other.root_seed


def test_run_id_is_another_one_with_another_format(monkeypatch):
    assert run().written() == {"format": FORMAT, **run().model_dump(mode="json")}
    before = run().run_id, run().shared_prefix
    monkeypatch.setattr(run_config, "FORMAT", 3)
    assert not set(before) & {run().run_id, run().shared_prefix}


def test_run_id_is_independent_of_key_order():
    one = run(seed=1, clients=6, training={"rounds": 5, "momentum": 0.5}, algorithm={"name": "fedavg"})
    other = run(algorithm="fedavg", training={"momentum": 0.5, "rounds": 5}, clients=6, seed=1)
    stored = json.loads(one.canonical_json())
    stored["algorithm"] = dict(reversed(stored["algorithm"].items()))
    again = RunConfig(**dict(reversed(stored.items())))
    assert one.run_id == other.run_id == again.run_id


@pytest.mark.parametrize(
    "same",
    [
        {"training": {"rounds": 15, "weight_decay": 0.0}, "split": {"num_clusters": 3}, "model": "digitnet"},
        {"participation": 1, "dropout": 0, "joins": {}, "split": {"scored_on": "test", "alpha": 1}},
        {"algorithm": {"name": "ocfl-hdbscan", "few_shot": 1}},
    ],
)
def test_explicit_default_is_the_same_run(same):
    assert (run(**same).run_id, run(**same).shared_prefix) == (run().run_id, run().shared_prefix)


OF_THE_RUN = [
    {"algorithm": "ocfl-kmeans"},
    {"algorithm": {"name": "ocfl-hdbscan", "window": 2}},
    {"algorithm": {"name": "ocfl-hdbscan", "clusterer": {"min_cluster_share": 0.3}}},
    {"training": {"rounds": 16}},
    {"algorithm": {"name": "ocfl-hdbscan", "few_shot": 2}},
    {"weights": "images"},
]
OF_THE_SHARED_PREFIX = [
    {"dataset": "mnist"},
    {"split": "overlapping-balanced"},
    {"split": "nonoverlapping-imbalanced"},
    {"clients": 16},
    {"seed": 1},
    {"model": "tinyvgg"},
    {"training": {"local_epochs": 2}},
    {"training": {"batch_size": 16}},
    {"training": {"optimizer": "adam"}},
    {"training": {"learning_rate": 0.2}},
    {"training": {"momentum": 0.9}},
    {"training": {"weight_decay": 0.1}},
    {"training": {"keep_optimizer_state": True}},
    {"training": {"tf32": True}},
    {"training": {"augment": ["crop"]}},
    {"training": {"normalise": "dataset"}},
    {"training": {"precision": "bfloat16"}},
    {"training": {"stacked": 4}},
    {"training": {"local_steps": 5}},
    {"training": {"schedule": {"warmup": 2}}},
    {"training": {"clip_gradient": 1.0}},
    {"training": {"buffers": "local"}},
    {"split": {"num_clusters": 2}},
    {"split": {"draws": 10}},
    {"split": {"test_share": 0.2}},
    {"split": {"alpha": 0.5}},
    {"split": {"proportions": "published"}},
    {"split": {"test_leakage": "published"}},
    {"split": {"server_images": 100}},
    {"split": {"tested_on": "official"}},
    {"evaluation": {"every": 2}},
    {"evaluation": {"clients": "asked"}},
    {"evaluation": {"local_server": True}},
    {"evaluation": {"local_server": "last"}},
    {"evaluation": {"global_model": True}},
    {"evaluation": {"probabilities": True}},
    {"participation": 0.5},
    {"dropout": 0.1},
    {"joins": {14: 2}},
    {"split": {"scored_on": "validation"}},
    {"split": {"reference_images": 20}},
    {"split": {"sizes": [7, 5, 3]}},
    {"split": {"quantity": 0.5}},
    {"split": {"arc": 45}},
    {"split": {"path": "partition:mine.csv@3f2a91c0d4e5"}},
    {"uplink": [{"clip": 1.0}]},
    {"privacy": {"delta": 1e-6}},
    {"faults": {"sign_flip": [3]}},
    {"drift": {3: {"round": 2, "to": 1}}},
    {"held_out": 0.2},
]


EVERY_CHANGE = (*OF_THE_RUN, *OF_THE_SHARED_PREFIX)


def test_every_change_gives_another_run_id_and_is_stored():
    """As JSON, and as a YAML file, whose reader takes 1e-07 for text."""
    configs = [run(), *(run(**change) for change in EVERY_CHANGE)]
    assert len({config.run_id for config in configs}) == len(configs)
    for config in configs:
        text = config.canonical_json()
        assert RunConfig.model_validate_json(text) == config
        assert complete_config(yaml.safe_load(text), NOWHERE).run_id == config.run_id


class TestSharedPrefix:
    """The shared prefix names runs that have their first rounds in common."""

    @pytest.mark.parametrize("name", ALGORITHMS)
    def test_it_is_shared_by_all_algorithms_and_numbers_of_rounds(self, name):
        split = choose_references(name)
        other = run(algorithm=name, split=split, training={"rounds": 100})
        assert other.shared_prefix == run(split=split).shared_prefix

    def test_it_is_shared_by_all_settings_of_an_algorithm(self):
        assert {run(**change).shared_prefix for change in OF_THE_RUN} == {run().shared_prefix}

    def test_every_other_change_gives_another_one(self):
        changed = [run(**change).shared_prefix for change in OF_THE_SHARED_PREFIX]
        majority = [
            run(split={"kind": "majority", **change}).shared_prefix
            for change in ({}, {"majority": 0.8}, {"first_group": [0, 1]})
        ]
        found = [run().shared_prefix, *changed, *majority]
        assert len(set(found)) == len(found)

    def test_every_key_is_covered_by_the_changes(self):
        """A new key must be in one of the two lists: does it change what a round computes?"""
        sections = {"training": Training, "split": Split, "evaluation": Evaluation}
        plain = RunConfig.model_fields.keys() - sections
        keys = plain | {f"{name}.{key}" for name in sections for key in sections[name].model_fields}
        changed = set()
        for change in EVERY_CHANGE:
            ((name, value),) = change.items()
            inner = {"kind": value} if isinstance(value, str) else value
            changed |= {f"{name}.{key}" for key in inner} if name in sections else {name}
        assert changed == keys - {
            "split.majority",
            "split.first_group",
            "split.labels_share",
            "training.stop_after",  # Needs validation images.
            "plugin_digests",
        }

    def test_it_starts_with_a_readable_name(self):
        shared_prefix = run(dataset="mnist", split="overlapping-imbalanced", seed=3).shared_prefix
        assert re.fullmatch(r"mnist-15-overlapping-imbalanced-s3-[0-9a-f]{12}", shared_prefix)

    def test_it_is_a_valid_folder_name(self, tmp_path):
        values = {**run().model_dump(), "dataset": f"npz:{tmp_path}/my images.npz"}
        shared_prefix = RunConfig(**values).shared_prefix
        assert shared_prefix.startswith("npz_my images-15-nonoverlapping-balanced-s0-")
        assert "/" not in shared_prefix


@pytest.mark.parametrize("name", ALGORITHMS)
def test_stored_configuration_of_an_algorithm_can_be_run_again(name):
    training = {**choose_optimizer(name), "learning_rate": 1e-7}
    config = run(dataset="pathmnist", algorithm=name, split=choose_references(name), training=training)
    assert build_algorithm(config).settings.model_dump(mode="json") == config.algorithm.settings
    assert RunConfig.model_validate_json(config.canonical_json()) == config
    stored = yaml.safe_load(json.dumps(config.model_dump(mode="json")))
    assert complete_config(stored, NOWHERE).run_id == config.run_id


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        run().seed = 1


TYPOS = [
    ({"sed": 1}, "unknown key 'sed'; did you mean 'seed'? allowed: dataset, clients, algorithm"),
    (
        {"training": {"round": 3}},
        "unknown key 'round' in training; did you mean 'rounds'? allowed: rounds, stop_after",
    ),
    (
        {"split": {"draw": 3}},
        "unknown key 'draw' in split; did you mean 'draws'? allowed: kind, num_clusters, draws",
    ),
    ({"lr": 0.1}, "unknown key 'lr'; did you mean 'training.learning_rate'?"),
    ({"algorithm": "FedAvg"}, "unknown algorithm 'FedAvg'; did you mean 'fedavg'? known: fedavg, sattler"),
    ({"algorithm": "SCL"}, "unknown algorithm 'SCL'; did you mean 'sattler'?"),
    ({"algorithm": ["fedavg"]}, "unknown algorithm"),
    (
        {"algorithm": {"name": "ocfl-kmeans", "num_clusters": 3}},
        "unknown key 'num_clusters'; did you mean 'clusterer.num_clusters'? allowed: similarity_over",
    ),
    (
        {"algorithm": {"ifca": {"num_clusters": 3}}},
        "algorithm = {'ifca': {'num_clusters': 3}}: name is missing; "
        "did you mean {name: ifca, num_clusters: 3}?",
    ),
    ({"algorithm": {"window": 2}}, "algorithm = {'window': 2}: name is missing; known: fedavg, sattler"),
    (
        {"algorithm": {"name": "sattler", "windw": 2}},
        "algorithm sattler: unknown key 'windw'; allowed: similarity_over, server_optimizer",
    ),
    (
        {"algorithm": {"name": "sattler", "learning_rat": 0.1}},
        "algorithm sattler: unknown key 'learning_rat'; did you mean 'training.learning_rate'? allowed: ",
    ),
    (
        {"algorithm": {"name": "ocfl-kmeans", "clusterer": {"num_cluster": 2}}},
        "algorithm ocfl-kmeans: unknown key 'num_cluster' in clusterer; did you mean 'num_clusters'? "
        "allowed: name, num_clusters",
    ),
    (
        {"algorithm": {"name": "ocfl-kmeans", "clusterer": "hdbscan"}},
        "algorithm ocfl-kmeans: ocfl-kmeans clusters with 'kmeans', not 'hdbscan': name its algorithm",
    ),
    ({"dataset": "mnst"}, "unknown dataset 'mnst'; did you mean 'mnist'? known: digits, mnist, fmnist"),
    ({"dataset": 3}, "unknown dataset '3'"),
    ({"model": "resnet3"}, "unknown model 'resnet3'; did you mean 'resnet34'? known: tinyvgg, resnet34"),
    (
        {"split": "overlaping"},
        "unknown split 'overlaping'; did you mean 'overlapping-balanced'? known: nonoverlapping-",
    ),
]
OUT_OF_BOUNDS = [
    ("clients", 0, "input should be greater than 0"),
    ("clients", 1.5, "input should be a valid integer"),
    ("clients", True, "input should be a valid integer"),
    ("clients", "15", "input should be a valid integer"),
    ("seed", -1, "input should be greater than or equal to 0"),
    ("training", 5, "expected"),
    ("training.rounds", 0, "input should be greater than 0"),
    ("training.batch_size", 0.5, "input should be a valid integer"),
    ("training.learning_rate", 0, "input should be greater than 0"),
    ("training.learning_rate", float("inf"), "input should be a finite number"),
    ("training.optimizer", "adm", "input should be 'sgd' or 'adam'"),
    ("training.keep_optimizer_state", 2, "input should be"),
    ("training.stop_after", "none", "input should be a valid integer, or null"),
    ("split", 5, "expected KEY: VALUE with keys of kind, num_clusters, draws"),
    ("split.draws", 0, "input should be greater than 0"),
    ("split.test_share", 1, "input should be less than 1"),
    ("evaluation.every", 0, "input should be greater than 0"),
    ("uplink", {"clip": 1}, "expected a list, as in [{'clip': 1}]"),
    ("participation", 0, "input should be greater than 0"),
    ("participation", 1.01, "input should be less than or equal to 1"),
    ("participation", True, "input should be a number, not true or false"),
    ("dropout", 1, "input should be less than 1"),
    ("dropout", -0.1, "input should be greater than or equal to 0"),
    ("joins", 3, "input should be a valid dictionary"),
    ("joins.14", 0, "input should be greater than 0"),
    ("faults", [3], "expected KEY: VALUE with keys of label_flip, sign_flip, label_noise, scale"),
    ("faults.sign_flip", 3, "expected a list, as in [3]"),
    ("faults.scale.3", 0, "input should be greater than 0"),
    ("drift.0", 2, "expected KEY: VALUE"),
    ("drift.0.round", 1, "input should be greater than or equal to 2"),
]


@pytest.mark.parametrize(("key", "value", "message"), OUT_OF_BOUNDS)
def test_value_out_of_bounds_is_refused_with_its_place(key, value, message):
    given = value
    for part in reversed(key.split(".")):
        given = {part: given}
    with pytest.raises(ConfigError) as refused:
        complete_config(given, NOWHERE)
    assert str(refused.value).startswith(f"{key} = {value!r}: {message}")
    assert "\n" not in str(refused.value)


def moved(**move):
    return {0: {"round": 2, "to": 1, **move}}


IMPOSSIBLE = [
    ({"joins": {15: 2}}, "joins: client 15 does not exist, the last one is 14"),
    ({"joins": {-1: 2}}, "input should be greater than or equal to 0"),
    ({"joins": {"last": 2}}, "input should be a valid integer"),
    ({"joins": {14: 16}}, "joins: client 14 joins in round 16, but the last one is 15"),
    ({"joins": dict.fromkeys(range(15), 2)}, "joins: no client is present in round 1"),
    ({"held_out": 0.8, "clients": 5}, "held_out: 4 of 5 clients would never train; at least two must"),
    (
        {"held_out": 0.5, "clients": 4, "joins": {0: 2, 1: 2}},
        "none of joins, faults and drift (they name 2)",
    ),
    (
        {"held_out": 0.2, "uplink": [{"clip": 1}, {"noise": 1}]},
        "no epsilon counts what a held-out client",
    ),
    (
        {
            "held_out": 0.2,
            "algorithm": {"name": "flis-hc", "variant": "neighbours"},
            "split": {"reference_images": 20},
        },
        "algorithm flis-hc: variant neighbours cannot serve held-out clients",
    ),
    (
        {"algorithm": {"name": "ocfl-hdbscan", "few_shot": 0}},
        "algorithm ocfl-hdbscan: few_shot = 0: input should be greater than 0",
    ),
    (
        {"algorithm": {"name": "ocfl-kmeans", "clusterer": {"num_clusters": 0}}},
        "algorithm ocfl-kmeans: clusterer.num_clusters = 0: input should be greater than 0",
    ),
    ({"faults": {"label_flip": [15]}}, "faults: client 15 does not exist, the last one is 14"),
    ({"faults": {"sign_flip": [1, 1]}}, "faults.sign_flip: [1, 1] lists a client twice"),
    ({"faults": {"sign_flip": [-1]}}, "faults.sign_flip.0 = -1: input should be greater than or equal to 0"),
    ({"faults": {"label_flip": range(15)}}, "faults: no client is honest; leave at least one out"),
    ({"faults": {"labelflip": [3]}}, "unknown key 'labelflip' in faults; did you mean 'label_flip'?"),
    ({"drift": {15: {"round": 2, "to": 1}}}, "drift: client 15 does not exist, the last one is 14"),
    ({"drift": moved(to=3)}, "drift: client 0 moves to group 3, but the last one is 2"),
    ({"drift": moved(to=0)}, "drift: client 0 is in group 0 from the start"),
    ({"drift": moved(round=16)}, "drift: client 0 moves in round 16, but the last one is 15"),
    ({"drift": {0: {"round": 2}}}, "drift.0.to is missing"),
    ({"drift": moved(), "joins": {0: 2}}, "drift: client 0 moves in round 2, but joins in round 2"),
    (
        {"drift": moved(), "split": {"kind": "dirichlet", "alpha": 0.5}},
        "drift: clients of split dirichlet cannot move to another group, only those of: "
        "nonoverlapping-balanced, nonoverlapping-imbalanced, overlapping-balanced, "
        "overlapping-imbalanced, rotated, rolled, flipped, swapped",
    ),
]


@pytest.mark.parametrize(("given", "message"), [*TYPOS, *IMPOSSIBLE])
def test_what_cannot_be_is_refused_in_one_line(given, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        complete_config(given, NOWHERE)
    assert "\n" not in str(refused.value)


def test_all_keys_that_are_missing_are_named():
    with pytest.raises(ConfigError, match="dataset, seed, model are missing"):
        RunConfig(clients=3, algorithm={"name": "fedavg"}, training=run().training)


def test_missing_own_images_are_named(tmp_path):
    with pytest.raises(DataError, match=re.escape(str(tmp_path / "mine.npz"))):
        complete_config({"dataset": f"npz:{tmp_path / 'mine.npz'}"}, NOWHERE)


KEPT = {
    "acce5a83554f": {"algorithm": "fedavg"},
    "0b403167e29b": {
        "algorithm": {"name": "sattler", "cooldown": 5, "epsilon_1": 0.4, "epsilon_2": 0.5},
        "split": "overlapping-imbalanced",
        "clients": 30,
    },
    "205cd4c5e472": {"algorithm": "ocfl-hdbscan"},
}
"""Ids of runs on digits from before participation, dropout and joins existed."""

WRITTEN = """
{"algorithm": {"clusterer": {"min_cluster_share": 0.2, "name": "hdbscan"}, "name": "ocfl-hdbscan",
  "noise": "nearest", "server_beta2": 0.99, "server_epsilon": 0.001, "server_learning_rate": 1.0,
  "server_momentum": 0.9, "server_optimizer": "none", "similarity_over": "parameters",
  "unclustered_consumes_shot": false, "window": 1},
 "clients": 15, "dataset": "digits",
 "evaluation": {"clients": "all", "every": 1, "local_server": false}, "model": "digitnet",
 "seed": 0,
 "split": {"alpha": 1.0, "draws": null, "kind": "nonoverlapping-balanced",
  "num_clusters": 3, "proportions": "drawn", "server_images": null,
  "test_leakage": "none", "test_share": 0.3},
 "training": {"batch_size": 32, "keep_optimizer_state": false, "learning_rate": 0.1, "local_epochs": 3,
  "momentum": 0.0, "optimizer": "sgd", "rounds": 15, "tf32": false, "weight_decay": 0.0},
 "weights": "none"}
"""
"""The config.json of the last of these runs, as it was stored then."""


class TestKeysThatCameLater:
    @pytest.mark.parametrize("run_id", KEPT)
    def test_run_without_participation_settings_keeps_its_id(self, run_id):
        assert run(**KEPT[run_id]).run_id == run_id

    def test_stored_configuration_without_participation_is_the_same_run(self):
        config = RunConfig(**json.loads(WRITTEN))
        assert config.run_id == "205cd4c5e472"
        assert config == run()
        assert json.loads(config.canonical_json()) == json.loads(WRITTEN)


def test_joins_accept_keys_as_text_or_numbers():
    """A YAML key is a number, a JSON key and `joins.14=5` are text; their order does not matter."""
    config = run(joins={14: 5, 3: 2})
    assert config.joins == {14: 5, 3: 2}
    for same in ({3: 2, 14: 5}, {"14": 5, "3": 2}):
        assert run(joins=same).run_id == config.run_id


def test_some_client_must_be_present_in_the_first_round():
    assert run(joins={**dict.fromkeys(range(14), 2), 14: 1}).joins[0] == 2
