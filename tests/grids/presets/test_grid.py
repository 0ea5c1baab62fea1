"""From what a user writes to the runs of a grid."""

import re
from pathlib import Path

import pytest
import yaml

from fedgrid.engine.data.datasets import load
from fedgrid.engine.errors import ConfigError
from fedgrid.engine.partition.scenarios import SCENARIOS
from fedgrid.engine.session import deal
from fedgrid.grids.presets.grid import load_grid, preset_names

NOWHERE = Path("no-data-needed")


@pytest.fixture
def write(tmp_path):
    def write_file(text, name="mine.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write_file


def grid(what=None, *changes, **options):
    return load_grid(what, options, changes, NOWHERE)


def names(*args, **options):
    return [run.algorithm["name"] for run in grid(*args, **options).runs]


def test_quickstart_is_the_papers_seven_algorithms_in_order():
    quickstart = grid("quickstart")
    assert quickstart.name == "quickstart"
    assert [run.name for run in quickstart.runs] == [
        "digits-15-nonoverlapping-balanced-bnc-s0",
        "digits-15-nonoverlapping-balanced-sattler-s0",
        "digits-15-nonoverlapping-balanced-briggs-s0",
        "digits-15-nonoverlapping-balanced-ocfl_kmeans-s0",
        "digits-15-nonoverlapping-balanced-ocfl_affinity-s0",
        "digits-15-nonoverlapping-balanced-ocfl_meanshift-s0",
        "digits-15-nonoverlapping-balanced-ocfl_hdbscan-s0",
    ]
    assert {run.training.rounds for run in quickstart.runs} == {15}


PUBLISHED = ("mnist", "fmnist", "cifar10", "pathmnist", "bloodmnist")
PROMISED = {
    "quickstart": 7,
    "paper": 280,
    "paper-as-published": 280,
    "conference": 168,
    "paper-digits": 280,
    "communities": 20,
    "communities-mixed": 20,
    "communities-digits": 20,
}


def test_every_preset_has_the_runs_it_promises():
    """data sets x splits x client numbers x algorithms x seeds, each run a configuration of its own."""
    assert {name: len(grid(name).runs) for name in preset_names()} == PROMISED
    for name in PROMISED:
        assert len({run.run_id for run in grid(name).runs}) == PROMISED[name]


def test_paper_is_the_papers_forty_scenarios_with_seven_algorithms():
    paper = grid("paper").runs
    assert {run.scenario for run in paper} == set(SCENARIOS)
    assert {run.algorithm["name"] for run in paper} == {
        "bnc",
        "sattler",
        "briggs",
        "ocfl-kmeans",
        "ocfl-affinity",
        "ocfl-meanshift",
        "ocfl-hdbscan",
    }
    assert {run.seed for run in paper} == {0}
    assert {(run.dataset, run.training.rounds) for run in paper} == {
        ("mnist", 50),
        ("fmnist", 50),
        ("cifar10", 80),
        ("pathmnist", 75),
        ("bloodmnist", 75),
    }
    assert {(run.balance, run.split.proportions) for run in paper} == {
        ("balanced", "drawn"),
        ("imbalanced", "published"),
    }


def settings(name, algorithm, *keys):
    return {
        run.dataset: tuple(run.algorithm[key] for key in keys)
        for run in grid(name).runs
        if run.algorithm["name"] == algorithm
    }


def test_paper_has_the_settings_of_the_papers_tables():
    assert settings("paper", "sattler", "epsilon_1", "epsilon_2", "cooldown") == {
        "mnist": (0.35, 1.0, 30),
        "fmnist": (0.35, 1.0, 40),
        "cifar10": (185, 925, 20),
        "pathmnist": (12, 60, 40),
        "bloodmnist": (38, 188, 40),
    }
    assert settings("paper", "briggs", "round", "threshold") == dict.fromkeys(PUBLISHED, (21, 0.4))


def test_paper_as_published_has_the_settings_of_the_archived_runs():
    name = "paper-as-published"
    assert settings(name, "sattler-as-published", "epsilon_1", "epsilon_2", "cooldown") == {
        "mnist": (0.35, 0.35, 20),
        "fmnist": (0.35, 0.35, 20),
        "cifar10": (185, 925, 20),
        "pathmnist": (12, 60, 20),
        "bloodmnist": (38, 188, 20),
    }
    assert settings(name, "briggs-as-published", "round", "threshold") == dict.fromkeys(PUBLISHED, (21, 0.05))
    published = [run for run in grid(name).runs if run.algorithm["name"] != "bnc"]
    assert {run.algorithm["similarity_over"] for run in published} == {"state"}


def test_the_conference_is_part_of_the_paper_and_a_plain_baseline_is_in_both_papers():
    """The same runs have the same ids, so none is computed twice."""

    def ids(name, **how):
        return {run.run_id for run in load_grid(name, {}, [], NOWHERE, **how).runs}

    assert ids("conference") < ids("paper")
    assert ids("paper", filters=["algorithm=bnc"]) == ids("paper-as-published", filters=["algorithm=bnc"])
    [plain] = load_grid("mnist-15-nonoverlapping-balanced", {"algorithm": "bnc"}, [], NOWHERE).runs
    assert plain.run_id in ids("paper")


def test_paper_digits_has_the_settings_of_the_quickstart():
    digits = grid("paper-digits").runs
    assert {run.run_id for run in grid("quickstart").runs} < {run.run_id for run in digits}
    assert {run.dataset for run in digits} == {"digits"}
    assert {run.seed for run in digits} == set(range(5))


def test_every_split_of_paper_digits_can_be_dealt():
    """Into three groups, nobody without images; algorithms share a split."""
    pool, _ = load("digits", NOWHERE)
    runs = load_grid("paper-digits", {}, [], NOWHERE, filters=["algorithm=bnc"]).runs
    assert len(runs) == 40
    for run in runs:
        clients = deal(run, pool.labels, NOWHERE)
        assert {client.cluster for client in clients} == {0, 1, 2}
        assert min(len(part) for client in clients for part in (client.train, client.test)) >= 12


def test_communities_has_the_settings_of_its_paper():
    """Facts/BASELINES.md 8.3: CIFAR-10, ten clients, 40 rounds, four seeds, MobileNet, resolution 1."""
    runs = grid("communities").runs
    assert {run.scenario for run in runs} == {"cifar10-10-majority-balanced"}
    assert {(run.model, run.training.rounds, run.split.num_clusters) for run in runs} == {
        ("mobilenet", 40, 2)
    }
    assert {run.seed for run in runs} == {0, 1, 2, 3}
    assert {run.split.majority for run in runs} == {1.0}
    assert {run.split.majority for run in grid("communities-mixed").runs} == {0.7}
    assert {
        (run.algorithm["resolution"], run.algorithm["exponent"], run.algorithm["late"] or "")
        for run in runs
        if run.algorithm["name"] == "louvain"
    } == {(1.0, 3.0, ""), (1.0, 3.0, 10)}


def test_the_split_of_communities_digits_can_be_dealt():
    pool, _ = load("digits", NOWHERE)
    for run in load_grid("communities-digits", {}, [], NOWHERE, filters=["algorithm=bnc"]).runs:
        clients = deal(run, pool.labels, NOWHERE)
        assert [client.cluster for client in clients] == [0, 1, 1, 1, 1, 1, 0, 1, 0, 0]


def test_a_list_may_have_the_majority_among_other_overlaps(write):
    """Each has its own number of groups; options of one kind only are for an override."""
    path = write(
        "overlap: [nonoverlapping, majority]\nclients: 10\n"
        "overrides: [{when: {overlap: majority}, then: {split: {majority: 0.7}}}]"
    )
    assert [(run.overlap, run.split.num_clusters, run.split.majority) for run in grid(path).runs] == [
        ("nonoverlapping", 3, 1.0),
        ("majority", 2, 0.7),
    ]


def test_what_a_split_cannot_be_is_refused_at_its_line(write):
    path = write("overlap: majority\nclients: 10\nsplit:\n  test_share: 0.2\n  num_clusters: 3")
    with pytest.raises(ConfigError, match=r"mine.yaml, line 5: split.num_clusters = 3: .* has 2 hidden"):
        grid(path)
    path = write("overlap: [nonoverlapping, majority]\nclients: 10\nsplit: {majority: 0.7}")
    with pytest.raises(ConfigError, match="line 3: split.majority = 0.7 .* only with majority"):
        grid(path)


def test_options_alone_are_one_run():
    described = grid(dataset="mnist", clients=30, seed=3)
    assert described.name == "runs"
    assert [run.name for run in described.runs] == ["mnist-30-nonoverlapping-balanced-ocfl_hdbscan-s3"]


def test_a_file_is_named_after_itself(write):
    assert grid(write("dataset: mnist", "my-search.yaml")).name == "my-search"


def test_lists_are_axes_and_the_last_varies_fastest(write):
    """Data set, overlap, balance, clients, seed, algorithm: in this order, whatever the file's."""
    path = write("algorithm: [bnc, sattler]\nseed: [0, 1]\nbalance: imbalanced\ndataset: [mnist, digits]")
    assert [run.name for run in grid(path).runs] == [
        f"{dataset}-15-nonoverlapping-imbalanced-{algorithm}-s{seed}"
        for dataset in ("mnist", "digits")
        for seed in (0, 1)
        for algorithm in ("bnc", "sattler")
    ]


def test_options_replace_what_the_file_says(write):
    path = write("dataset: mnist\nseed: [0, 1]\nalgorithm: bnc\ntraining: {rounds: 3}")
    [run] = grid(path, seed=[5], algorithm=["sattler"]).runs
    assert run.name == "mnist-15-nonoverlapping-balanced-sattler-s5"
    assert run.training.rounds == 3


def test_set_reaches_a_nested_key_and_leaves_its_neighbours(write):
    path = write("training: {rounds: 3, batch_size: 8}")
    [run] = grid(path, "training.rounds=5", "split.test_share=0.2").runs
    assert (run.training.rounds, run.training.batch_size, run.split.test_share) == (5, 8, 0.2)


def test_set_reads_yaml_and_later_ones_win():
    assert [run.seed for run in grid(None, "seed=7", "seed=[1, 2]").runs] == [1, 2]
    [run] = grid(None, "training.learning_rate=1e-3", "training.keep_optimizer_state=true").runs
    assert run.training.learning_rate == 1e-3
    assert run.training.keep_optimizer_state


def test_set_is_applied_after_options():
    assert [run.seed for run in grid(None, "seed=2", seed=1).runs] == [2]


@pytest.mark.parametrize("algorithm", ["ocfl-kmeans", "{name: ocfl-kmeans, window: 5}", "[ocfl-kmeans]"])
def test_set_changes_the_settings_of_an_algorithm(write, algorithm):
    [run] = grid(write(f"algorithm: {algorithm}"), "algorithm.window=2").runs
    assert run.algorithm["name"] == "ocfl-kmeans"
    assert run.algorithm["window"] == 2


def test_set_changes_the_settings_of_every_algorithm(write):
    path = write("algorithm: [ocfl-kmeans, {name: ocfl-meanshift, noise: residual}]")
    kmeans, meanshift = (run.algorithm for run in grid(path, "algorithm.window=2").runs)
    assert (kmeans["name"], kmeans["window"], kmeans["noise"]) == ("ocfl-kmeans", 2, "nearest")
    assert (meanshift["name"], meanshift["window"], meanshift["noise"]) == ("ocfl-meanshift", 2, "residual")


def test_set_changes_the_settings_of_the_algorithm_that_nobody_named():
    [run] = grid(None, "algorithm.window=2").runs
    assert (run.algorithm["name"], run.algorithm["window"]) == ("ocfl-hdbscan", 2)


def test_set_reaches_into_a_clusterer():
    [run] = grid(None, "algorithm.clusterer.num_clusters=5", algorithm="ocfl-kmeans").runs
    assert run.algorithm["clusterer"] == {"name": "kmeans", "num_clusters": 5}


def test_set_of_a_setting_that_one_of_the_algorithms_lacks_is_refused():
    refused(
        "algorithm bnc: unknown key 'window'", None, "algorithm.window=2", algorithm=["ocfl-kmeans", "bnc"]
    )


def test_the_same_run_twice_is_refused():
    refused("the same run twice: digits-15-nonoverlapping-balanced-bnc-s0", algorithm=["bnc", "bnc"])
    refused("check the lists for repeats", seed=[0, 1, 0])
    refused("the same run twice", algorithm=["ocfl-kmeans", {"name": "ocfl-kmeans", "window": 1}])


def test_an_algorithm_with_two_settings_is_two_runs():
    choices = ["ocfl-kmeans", {"name": "ocfl-kmeans", "window": 3}]
    assert names(algorithm=choices) == ["ocfl-kmeans", "ocfl-kmeans"]


def test_an_empty_list_is_refused():
    """Or the grid would have no runs, and finish at once."""
    refused("seed = []: expected at least one", seed=[])


def test_an_unknown_preset_names_the_nearest():
    refused("unknown preset 'quikstart'; did you mean 'quickstart'? known: quickstart", "quikstart")


def test_a_missing_file_names_the_presets(tmp_path):
    refused(f"no file {tmp_path / 'gone.yaml'}; presets: quickstart", str(tmp_path / "gone.yaml"))


def test_what_is_not_yaml_says_where(write):
    refused("mine.yaml is not YAML: ", write("seed: [0, 1\nclients: 3"))


@pytest.mark.parametrize("text", ["", "- bnc\n- sattler", "bnc", "3"])
def test_what_is_no_mapping_is_refused(write, text):
    refused("mine.yaml: expected keys such as dataset: and algorithm:", write(text))


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"dataset: \xff")
    refused("mine.yaml is not YAML: ", str(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("training.rounds", "--set training.rounds: expected KEY=VALUE, as in training.rounds=5"),
        ("=5", "--set =5: expected KEY=VALUE"),
        ("seed.first=5", "--set seed.first=5: seed is 0, it has no keys"),
        ("seed=[0", "--set seed=[0 is not YAML: "),
        ("training.round=5", "unknown key 'round' in training; did you mean 'rounds'?"),
        ("training.rounds=many", "training.rounds = 'many': input should be a valid integer"),
        ("training=5", "training = 5: expected"),
        ("rounds=5", "unknown key 'rounds'; "),
        ("algorithm.clusterer=kmeans", "algorithm ocfl-hdbscan: clusterer = 'kmeans': expected"),
    ],
)
def test_a_change_that_cannot_be_is_refused(change, message):
    refused(message, None, change)


def test_a_typo_in_a_file_is_refused(write):
    refused("unknown key 'cleints'; did you mean 'clients'?", write("cleints: 30"))


def refused(message, *args, **options):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        grid(*args, **options)
    assert "\n" not in str(error.value)


def test_a_published_scenario_has_a_name(tmp_path):
    [run] = load_grid("mnist-30-overlapping-imbalanced", {"algorithm": "bnc"}, [], tmp_path).runs
    assert run.name == "mnist-30-overlapping-imbalanced-bnc-s0"
    assert (run.dataset, run.overlap, run.balance, run.clients) == ("mnist", "overlapping", "imbalanced", 30)


def test_an_unknown_scenario_names_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'mnist-15-overlapping-balanced'"):
        load_grid("mnist-15-overlaping-balanced", {}, [], tmp_path)


def narrowed(what="paper", **how):
    return load_grid(what, {}, [], NOWHERE, **how).runs


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["dataset=mnist,clients=15"], 28),
        (["dataset=mnist", "clients=15"], 28),
        (["datasets=mnist,datasets=fmnist,algorithm=sattler"], 16),
        (["overlap=overlapping,balance=imbalanced,seed=0"], 70),
        (["dataset=mnist,dataset=fmnist", "dataset=fmnist,dataset=cifar10"], 56),
    ],
)
def test_a_filter_keeps_what_has_these_values(filters, count):
    """Of one axis any of the values, of several axes and several filters all."""
    assert len(narrowed(filters=filters)) == count


def test_a_filter_leaves_ids_and_overrides_alone():
    [run] = narrowed(
        filters=["dataset=fmnist,clients=30,algorithm=sattler", "overlap=overlapping,balance=balanced"]
    )
    assert run.algorithm["cooldown"] == 40
    assert run.run_id in {run.run_id for run in narrowed()}


def test_a_filter_may_name_an_axis_that_is_no_list():
    assert len(narrowed("quickstart", filters=["dataset=digits,clients=15,overlap=nonoverlapping"])) == 7


@pytest.mark.parametrize(
    ("given", "expected"),
    [("0..4", [0, 1, 2, 3, 4]), ("3", [3]), ("0,2,5", [0, 2, 5]), ("0..1,9", [0, 1, 9])],
)
def test_seeds_replace_the_grids(given, expected):
    assert sorted({run.seed for run in narrowed("quickstart", seeds=given)}) == expected


def test_filters_see_the_new_seeds():
    assert len(narrowed("quickstart", seeds="0..4", filters=["seed=3..4"])) == 14


def test_an_extension_adds_runs_and_changes_none():
    before = narrowed("quickstart")
    after = narrowed("quickstart", extends=["algorithms+=briggs-as-published,sattler-as-published"])
    assert after[:7] == before
    assert [run.algorithm["name"] for run in after[7:]] == ["briggs-as-published", "sattler-as-published"]
    assert len(narrowed("quickstart", extends=["seeds+=5..9", "clients+=30"])) == 7 * 6 * 2


def test_overrides_hold_for_what_an_extension_adds():
    new = [
        run
        for run in narrowed(extends=["algorithm+=sattler-as-published"])
        if "as-pub" in run.algorithm["name"]
    ]
    assert len(new) == 40
    assert {(run.balance, run.split.proportions) for run in new} == {
        ("balanced", "drawn"),
        ("imbalanced", "published"),
    }


@pytest.mark.parametrize("values", ["clients+=45", "datasets+=cifar10,mnist", "overlaps+=overlapping"])
def test_any_axis_can_be_extended(values):
    assert len(narrowed("quickstart", extends=[values])) == 7 * (2 + values.count(","))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"filters": ["datset=mnist"]},
            "--filter datset=mnist: unknown axis 'datset'; did you mean 'dataset'? known: dataset, overlap",
        ),
        (
            {"filters": ["dataset=mnits"]},
            "no dataset 'mnits' in this grid; did you mean 'mnist'? it has: mnist, fmnist, cifar10, ",
        ),
        ({"filters": ["clients=20"]}, "no clients '20' in this grid; it has: 15, 30"),
        ({"filters": ["mnist"]}, "'mnist' is not AXIS=VALUE, as in dataset=mnist,dataset=fmnist,clients=15"),
        ({"filters": ["dataset=mnist,fmnist"]}, "'fmnist' is not AXIS=VALUE"),
        ({"filters": [""]}, "'' is not AXIS=VALUE"),
        (
            {"filters": ["dataset=mnist", "dataset=fmnist"]},
            "no run is left: dataset should be fmnist, but only mnist is there",
        ),
        ({"seeds": "4..0"}, "--seeds: seeds = '4..0': a range goes up"),
        ({"seeds": "a"}, "--seeds: seeds = 'a': expected 0..4 (both included), 3 or 0,2,5"),
        ({"seeds": "-1"}, "--seeds: seeds = '-1': expected 0..4"),
        ({"seeds": "0,0"}, "the same run twice: "),
        (
            {"extends": ["algorithms=bnc"]},
            "--extend algorithms=bnc: expected AXIS+=VALUES, as in algorithms+=sattler,briggs or seeds+=5..9",
        ),
        ({"extends": ["algorithms+="]}, "expected AXIS+=VALUES"),
        ({"extends": ["rounds+=5"]}, "--extend rounds+=5: unknown axis 'rounds'; "),
        ({"extends": ["algorithms+=bnc"]}, "the grid has algorithm bnc already; leave it out"),
        ({"extends": ["seeds+=0..1"]}, "the grid has seed 0 already"),
        (
            {"extends": ["algorithms+=louvian"]},
            "unknown algorithm 'louvian'; did you mean 'louvain'? known: bnc, ",
        ),
        ({"extends": ["clients+=x"]}, "clients = 'x': input should be a valid integer"),
    ],
)
def test_what_cannot_be_narrowed_or_added_is_refused(how, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as error:
        narrowed(**how)
    assert "\n" not in str(error.value)


def test_a_grid_keeps_the_text_of_its_preset(write):
    text = "# why\nseed: [0, 1]\n"
    assert grid(write(text)).text == text
    assert grid("quickstart").text.startswith("# The OCFL paper's seven algorithms on scikit-learn's digits")


def test_options_alone_are_a_text_too():
    assert yaml.safe_load(grid(dataset="mnist", seed=3).text) == {"dataset": "mnist", "seed": 3}
    assert yaml.safe_load(grid("mnist-15-overlapping-balanced", algorithm="bnc").text) == {
        "dataset": "mnist",
        "overlap": "overlapping",
        "balance": "balanced",
        "clients": 15,
        "algorithm": "bnc",
    }


def newcomers(*args, **options):
    return [(run.participation, run.dropout, run.joins) for run in grid(*args, **options).runs]


def test_who_comes_and_goes_is_said_for_all_runs_and_changed_on_the_command_line(write):
    path = write("algorithm: [bnc, briggs]\nparticipation: 0.5\ndropout: 0.1\njoins: {14: 5, 3: 2}")
    assert newcomers(path) == [(0.5, 0.1, {14: 5, 3: 2})] * 2
    changed = newcomers(path, "participation=0.25", "joins.14=6", "joins.13=4")
    assert changed == [(0.25, 0.1, {14: 6, 13: 4, 3: 2})] * 2
    assert newcomers(None, "joins.14=5", "dropout=0.2") == [(1.0, 0.2, {14: 5})]


def test_or_for_some_runs_by_an_override(write):
    then = "overrides:\n  - when: {clients: 30}\n    then: {joins: {20: 5}}"
    path = write(f"algorithm: bnc\nclients: [15, 30]\n{then}")
    assert [joins for _, _, joins in newcomers(path)] == [{}, {20: 5}]


def test_an_impossible_newcomer_is_shown_where_it_stands(write):
    path = write("base: quickstart\nseed: 1\njoins:\n  15: 5")
    refused("mine.yaml, line 3: joins: client 15 does not exist, the last one is 14", path)
