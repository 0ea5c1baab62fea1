"""The presets that come with fedgrid: their runs, and the settings of the papers."""

from pathlib import Path

import pytest

from fedgrid.engine.data.datasets import load
from fedgrid.engine.partition.scenarios import SCENARIOS
from fedgrid.engine.session import deal
from fedgrid.grids.presets.grid import load_grid, preset_names

NOWHERE = Path("no-data-needed")


def grid(what=None, *changes, **options):
    return load_grid(what, options, changes, NOWHERE)


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


@pytest.mark.parametrize("name", ["paper", "paper-as-published"])
def test_paper_trains_and_splits_as_in_table_3(name):
    """Optimizer, learning rate, weight decay, batch, local epochs. On MedMNIST the defaults are others."""
    keys = ("optimizer", "learning_rate", "weight_decay", "batch_size", "local_epochs")
    runs = grid(name).runs
    assert {(run.dataset, *(getattr(run.training, key) for key in keys)) for run in runs} == {
        ("mnist", "sgd", 1e-2, 0, 32, 3),
        ("fmnist", "sgd", 1e-2, 0, 32, 3),
        ("cifar10", "sgd", 1e-2, 0, 64, 3),
        ("pathmnist", "adam", 1e-7, 0.01, 128, 3),
        ("bloodmnist", "adam", 1e-6, 0.01, 128, 3),
    }
    assert {run.split.test_leakage for run in runs} == {"published"}


@pytest.mark.parametrize("name", ["quickstart", "paper-digits", "communities", "communities-digits"])
def test_nothing_leaks_outside_the_papers_presets(name):
    assert {run.split.test_leakage for run in grid(name).runs} == {"none"}


def test_paper_runs_the_corrected_algorithms_with_settings_that_fit_every_data_set():
    """Table 4's epsilons are of another norm than the test's: on the ResNets they can never split."""
    epsilons = settings("paper", "sattler", "epsilon_1", "epsilon_2", "cooldown")
    assert epsilons == dict.fromkeys(PUBLISHED, (None, None, 3))
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
    options = {
        "algorithm": "bnc",
        "evaluation": {"local_server": True},
        "split": {"test_leakage": "published"},
    }
    [plain] = load_grid("mnist-15-nonoverlapping-balanced", options, [], NOWHERE).runs
    assert plain.run_id in ids("paper")


def test_paper_digits_has_the_settings_of_the_quickstart():
    digits = grid("paper-digits").runs
    tested = load_grid("quickstart", {"evaluation": {"local_server": True}}, [], NOWHERE).runs
    assert {run.run_id for run in tested} < {run.run_id for run in digits}
    assert {run.dataset for run in digits} == {"digits"}
    assert {run.seed for run in digits} == set(range(5))


@pytest.mark.parametrize("name", PROMISED)
def test_local_models_are_tested_on_the_servers_set_for_the_papers_only(name):
    """For the published GF1."""
    tested = {run.evaluation.local_server for run in grid(name).runs}
    assert tested == {name.startswith(("paper", "conference"))}


def test_every_split_of_paper_digits_can_be_dealt():
    """Into three groups, every client with images; algorithms share a split."""
    pair = load("digits", NOWHERE)
    runs = load_grid("paper-digits", {}, [], NOWHERE, filters=["algorithm=bnc"]).runs
    assert len(runs) == 40
    for run in runs:
        clients = deal(run, pair, NOWHERE)
        assert {client.cluster for client in clients} == {0, 1, 2}
        assert min(len(part) for client in clients for part in (client.train, client.test)) >= 4


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
    pair = load("digits", NOWHERE)
    for run in load_grid("communities-digits", {}, [], NOWHERE, filters=["algorithm=bnc"]).runs:
        clients = deal(run, pair, NOWHERE)
        assert [client.cluster for client in clients] == [0, 1, 1, 1, 1, 1, 0, 1, 0, 0]
