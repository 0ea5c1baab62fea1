"""The presets that come with fedgrid: their runs, and the settings of the papers."""

from functools import cache
from pathlib import Path

import pytest

from fedgrid.algorithms import built_in
from fedgrid.algorithms.registry import list_arena_members
from fedgrid.engine.federation.before_training.setup import deal_images
from fedgrid.engine.federation.partition.scenarios import PUBLISHED_SPLITS, SCENARIOS
from fedgrid.engine.runtime.configuration.idle_settings import format_idle_lines
from fedgrid.engine.runtime.data.datasets import load_dataset
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.presets.preset_files import list_presets
from fedgrid.grids.results.runs import describe_configs
from fedgrid.tracking.papers.flis.tables import name_scenario, read_printed_accuracy
from tests.helpers.partitions import list_held

NOWHERE = Path("no-data-needed")
NUM_CLASSES = 10
SEVEN = ("fedavg", "sattler", "briggs", "ocfl-kmeans", "ocfl-affinity", "ocfl-meanshift", "ocfl-hdbscan")
"""The algorithms of the OCFL paper."""


@cache
def grid(what):
    """Return a preset; expanding the largest takes a second."""
    return load_grid(what, {}, [], NOWHERE)


def test_quickstart_is_the_papers_seven_algorithms_in_order():
    assert grid("quickstart").name == "quickstart"
    assert [run.name for run in grid("quickstart").runs] == [
        f"digits-15-nonoverlapping-balanced-{name.replace('-', '_')}-s0" for name in SEVEN
    ]


IN_ARENA = len(list_arena_members()) + 1
"""Its members, and FedAvg-FT."""
PUBLISHED = ("mnist", "fmnist", "cifar10", "pathmnist", "bloodmnist")
PROMISED = {
    "quickstart": 7,
    "centralised": 1,
    "paper": 280,
    "paper-as-published": 280,
    "conference": 168,
    "paper-digits": 280,
    "paper-fast": 280,
    "ours-digits": 320,
    "arena": 3 * 8 * 3 * IN_ARENA,
    "arena-digits": 8 * 3 * IN_ARENA,
    "privacy-digits": 147,
    "communities": 20,
    "communities-mixed": 20,
    "communities-digits": 20,
    "flis": 264,
    "flis-dirichlet": 99,
    "flis-beta": 99,
    "flis-digits": 33,
    "bettinelli-resolution": 120,
    "bettinelli-attribution": 80,
    "bettinelli-digits": 40,
    "prigent": 5,
    "prigent-attack": 7,
    "prigent-cifar10": 5,
    "prigent-femnist": 5,
    "prigent-flips": 22,
    "prigent-flips-cifar10": 22,
    "prigent-digits": 15,
}


def test_every_preset_has_the_runs_it_promises():
    """data sets x splits x client numbers x algorithms x seeds, each run a configuration of its own."""
    assert {name: len(grid(name).runs) for name in list_presets()} == PROMISED
    for name in PROMISED:
        assert len({run.run_id for run in grid(name).runs}) == PROMISED[name]


def test_no_preset_has_a_setting_that_cannot_act():
    for name in PROMISED:
        assert format_idle_lines(grid(name).runs) == []


@pytest.mark.parametrize("name", ["arena", "arena-digits"])
def test_the_arena_has_every_algorithm_that_is_not_as_published_in_eight_scenarios(name):
    """The four splits of the OCFL paper, and four that have balanced groups only."""
    runs = grid(name).runs
    entered = {run.algorithm.name for run in runs}
    assert entered == {entry.name for entry in built_in.ENTRIES if not entry.name.endswith("-as-published")}
    splits = {run.split.kind for run in runs}
    assert splits == {*PUBLISHED_SPLITS, "rotated", "label-skew", "dirichlet", "iid"}
    told = {
        (
            run.split.kind == "rotated",
            (run.algorithm.settings.get("clusterer") or run.algorithm.settings)["num_clusters"],
        )
        for run in runs
        if run.algorithm.name in ("ifca", "ocfl-kmeans")
    }
    assert told == {(True, 4), (False, 3)}


@pytest.mark.parametrize(
    ("name", "which", "number"),
    [("paper-digits", "algorithm=fedavg", 40), ("arena-digits", "algorithm=sattler,seed=0", 8)],
)
def test_every_split_of_a_preset_on_digits_can_be_dealt(name, which, number):
    """Every client has images to train on and to be tested on; algorithms share a split."""
    pair = load_dataset("digits", NOWHERE)
    runs = load_grid(name, {}, [], NOWHERE, filters=[which]).runs
    assert len(runs) == number
    for run in runs:
        clients = list_held(deal_images(run, pair, NUM_CLASSES))
        assert min(len(part) for client in clients for part in (client.train, client.test)) >= 3


ELEVEN = [
    *("solo", "fedavg", "fedprox", "fednova", "scaffold", "lg-fedavg", "per-fedavg", "ifca", "sattler"),
    *("flis-dc", "flis-hc"),
]


@pytest.mark.parametrize("name", ["flis", "flis-dirichlet", "flis-digits"])
def test_flis_compares_eleven_algorithms_with_a_tenth_or_half_of_the_clients(name):
    runs = grid(name).runs
    assert list(dict.fromkeys(run.algorithm.name for run in runs)) == ELEVEN
    assert {run.seed for run in runs} == {0, 1, 2}
    assert {(run.weights, run.split.tested_on) for run in runs} == {("images", "official")}
    shape = {(run.clients, run.participation) for run in runs}
    assert shape == {(20, 0.5) if name == "flis-digits" else (100, 0.1)}


def test_flis_has_the_settings_of_its_release():
    """Facts/BASELINES.md 4.3 and 11: SGD 0.01, momentum 0.5, batch 10, 10 epochs; beta 0.3, 0.5 on FMNIST."""
    runs = [*grid("flis").runs, *grid("flis-dirichlet").runs]
    keys = ("optimizer", "learning_rate", "momentum", "batch_size", "local_epochs")
    assert {tuple(getattr(run.training, key) for key in keys) for run in runs} == {("sgd", 0.01, 0.5, 10, 10)}
    assert {(run.dataset, run.model, run.training.rounds, run.training.augment) for run in runs} == {
        ("fmnist", "lenet5", 200, ()),
        ("svhn", "lenet5", 200, ()),
        ("cifar10", "lenet5", 200, ("crop", "flip")),
        ("cifar100", "resnet9", 150, ("crop", "flip")),
    }
    assert settings("flis", "flis-dc", "beta") == {
        "fmnist": (0.5,),
        **dict.fromkeys(("cifar10", "cifar100", "svhn"), (0.3,)),
    }
    assert {run.split.reference_images for run in runs} == {2500}


def test_flis_has_two_skews_and_the_runs_of_the_published_tables():
    """The reports of `flis` and `flis-dirichlet` compare every run but the lost row of FLIS-HC at 30 %."""
    for name, scenarios in (
        ("flis", {"label-skew 0.2", "label-skew 0.3"}),
        ("flis-dirichlet", {"dirichlet 0.1"}),
    ):
        runs = describe_configs(grid(name).runs, Storage.from_text("no-runs-needed"))
        assert {name_scenario(run) for run in runs} == scenarios
        published = {(name_scenario(run), run.dataset, run.published) for run in runs}
        lost = {
            ("label-skew 0.3", dataset, "FLIS-HC") for dataset in ("fmnist", "cifar10", "cifar100", "svhn")
        }
        assert published - set(read_printed_accuracy()) == (lost if name == "flis" else set())


def test_paper_is_the_papers_forty_scenarios_with_seven_algorithms():
    paper = grid("paper").runs
    assert {run.scenario for run in paper} == set(SCENARIOS)
    assert {run.algorithm.name for run in paper} == set(SEVEN)
    assert {run.seed for run in paper} == {0}
    rounds = {"mnist": 50, "fmnist": 50, "cifar10": 80, "pathmnist": 75, "bloodmnist": 75}
    assert {(run.dataset, run.training.rounds) for run in paper} == set(rounds.items())
    assert {(run.split.kind.rpartition("-")[2], run.split.proportions) for run in paper} == {
        ("balanced", "drawn"),
        ("imbalanced", "published"),
    }


def settings(name, algorithm, *keys):
    return {
        run.dataset: tuple(run.algorithm.settings[key] for key in keys)
        for run in grid(name).runs
        if run.algorithm.name == algorithm
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
    published = [run for run in grid(name).runs if run.algorithm.name != "fedavg"]
    assert {run.algorithm.similarity_over for run in published} == {"state"}


def test_the_conference_is_part_of_the_paper_and_a_plain_baseline_is_in_both_papers():
    """The same runs have the same ids, so none is computed twice."""

    def ids(name, **how):
        return {run.run_id for run in load_grid(name, {}, [], NOWHERE, **how).runs}

    assert ids("conference") < ids("paper")
    assert ids("paper", filters=["algorithm=fedavg"]) == ids(
        "paper-as-published", filters=["algorithm=fedavg"]
    )
    options = {
        "algorithm": "fedavg",
        "evaluation": {"local_server": True},
        "split": {"test_leakage": "published"},
    }
    [plain] = load_grid("mnist-15-nonoverlapping-balanced", options, [], NOWHERE).runs
    assert plain.run_id in ids("paper")


def test_paper_fast_is_paper_but_for_tests_of_local_models_in_all_rounds():
    asked = load_grid("paper-fast", {"evaluation": {"local_server": True}}, [], NOWHERE).runs
    assert {run.run_id for run in asked} == {run.run_id for run in grid("paper").runs}


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
    assert tested == {"last" if name == "paper-fast" else name.startswith(("paper", "conference"))}


def test_communities_has_the_settings_of_its_paper():
    """Facts/BASELINES.md 8.3: CIFAR-10, ten clients, 40 rounds, four seeds, MobileNet, resolution 1."""
    runs = grid("communities").runs
    assert {run.scenario for run in runs} == {"cifar10-10-majority"}
    assert {(run.model, run.training.rounds, run.split.num_clusters) for run in runs} == {
        ("mobilenet", 40, 2)
    }
    assert {run.seed for run in runs} == {0, 1, 2, 3}
    assert {run.split.majority for run in runs} == {1.0}
    assert {run.split.majority for run in grid("communities-mixed").runs} == {0.7}
    assert {
        (run.algorithm.resolution, run.algorithm.exponent, run.algorithm.late or "")
        for run in runs
        if run.algorithm.name == "louvain"
    } == {(1.0, 3.0, ""), (1.0, 3.0, 10)}


def test_the_split_of_communities_digits_can_be_dealt():
    pair = load_dataset("digits", NOWHERE)
    for run in load_grid("communities-digits", {}, [], NOWHERE, filters=["algorithm=fedavg"]).runs:
        clients = list_held(deal_images(run, pair, NUM_CLASSES))
        assert [client.cluster for client in clients] == [0, 1, 1, 1, 1, 1, 0, 1, 0, 0]
