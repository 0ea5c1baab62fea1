"""The methods paragraph: the quickstart's word for word, and every number of other grids."""

import pytest

from fedgrid.grids.cite.methods import paragraph
from fedgrid.grids.presets.load import load_grid
from tests.helpers.small_runs import NOWHERE, config

VERSIONS = {"fedgrid": "0.1.0", "python": "3.12", "torch": "2.15.0", "numpy": "2.4.6"}


def text_of(*runs):
    return paragraph(runs, VERSIONS, NOWHERE)


def test_quickstart():
    """21,674 parameters: docs of digitnet."""
    assert text_of(*load_grid("quickstart", {}, [], NOWHERE).runs) == (
        r"We compare BNC \cite{mcmahan2017communication,reddi2021adaptive}, SCL \cite{sattler2021clustered}, "
        r"BCL \cite{briggs2020federated}, OCFL-KM, OCFL-AFF, OCFL-MS and OCFL-HDB "
        r"\cite{zuziak2024oneshot,zuziak2025oneshot} with fedgrid 0.1.0 \cite{fedgrid} on "
        r"digits (a pool of 1,442 images of 10 classes) \cite{alpaydin1998optical}. "
        r"Model: digitnet with 21,674 parameters. "
        r"Runs have clients 15; split nonoverlapping-balanced; split.num\_clusters 3; split.test\_share 0.3; "
        r"participation 1; weights none; training.rounds 15; training.local\_epochs 3; "
        r"training.batch\_size 32; training.optimizer sgd; training.learning\_rate 0.1; "
        r"training.momentum 0; training.weight\_decay 0; evaluation.every 1; "
        r"all else is at fedgrid's defaults. "
        r"Settings of algorithms are fedgrid's defaults, but for BCL with round 6. "
        r"Seeds: 0; runs: 7. "
        r"Software: Python 3.12, torch 2.15.0 and numpy 2.4.6."
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"participation": 0.5}, "participation 0.5;"),
        ({"weights": "images"}, "weights images;"),
        ({"dropout": 0.1}, "; dropout 0.1;"),
        ({"training": {"momentum": 0.9}}, "training.momentum 0.9;"),
        ({"training": {"augment": ["flip"]}}, r'training.augment ["flip"]'),
        ({"split": {"test_share": 0.25}}, r"split.test\_share 0.25;"),
        ({"split": "iid"}, "split iid; split.test"),
        ({"split": {"kind": "rotated", "num_clusters": 3}}, r"split rotated; split.num\_clusters 3;"),
        ({"evaluation": {"every": 2}}, "evaluation.every 2;"),
        ({"uplink": [{"clip": 0.5}, {"noise": 0.1}]}, "uplink (clip 0.5, noise 0.1)"),
        ({"joins": {5: 2}}, r'joins \{"5": 2\}'),
        ({"algorithm": {"name": "fedavg", "server_optimizer": "adam"}}, r"BNC with server\_optimizer adam"),
    ],
)
def test_every_setting_has_its_place(given, words):
    assert words in text_of(config(**given))


def test_defaults_of_a_kind_of_split_are_not_listed():
    """small_runs sets draws and server_images; alpha is 0.1 with dirichlet."""
    text = text_of(config(split="dirichlet"))
    assert r"evaluation.every 1; split.draws 40; split.server\_images 50; all else" in text


def test_what_differs_by_data_set_names_it():
    runs = load_grid("conference", {}, [], NOWHERE).runs
    text = text_of(*runs)
    assert "training.rounds 50 (MNIST and Fashion-MNIST) and 80 (CIFAR-10);" in text
    assert "clients 15 or 30;" in text
    assert f"runs: {len(runs)}." in text


def test_an_axis_of_its_own_lists_its_values():
    runs = [config(training={"local_epochs": number}) for number in (1, 5)]
    assert r"training.local\_epochs 1 or 5;" in text_of(*runs)


def test_settings_of_an_algorithm_are_listed_for_each_value():
    runs = [config({"name": "briggs", "round": 2, "threshold": each}) for each in (0.1, 0.2)]
    text = text_of(*runs, config({"name": "sattler", "cooldown": 1}))
    assert "but for BCL with round 2 and threshold 0.1 or 0.2; SCL with cooldown 1." in text


@pytest.mark.parametrize(
    ("seeds", "words"),
    [((4,), "Seeds: 4; runs: 1."), ((0, 2), "Seeds: 0 and 2; runs: 2."), (range(5), "0 to 4;")],
)
def test_seeds_and_runs_are_counted(seeds, words):
    assert words in text_of(*(config(seed=seed) for seed in seeds))


def test_images_and_models_that_are_not_here_have_no_numbers():
    run = config().model_copy(update={"dataset": "folder:my_cats@0123456789ab", "model": "mine_2"})
    text = text_of(run)
    assert r"on folder\_my\_cats. " in text
    assert r"Model: mine\_2. " in text
