"""Which runs the authors' archive has, and which configuration of ours each has."""

import os
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.archive import layout
from fedgrid.grids.archive.importing import build_config
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.archive_models import is_archived
from tests.helpers.small_archive import SCENARIO, write_run

ALGORITHMS = {
    "baseline": "fedavg",
    "sattler": "sattler-as-published",
    "briggs": "briggs-as-published",
    "kmeans": "ocfl-kmeans",
    "affinity": "ocfl-affinity-as-published",
    "meanshift": "ocfl-meanshift",
    "HDBSCAN": "ocfl-hdbscan-as-published",
}


def touch(folder):
    folder.mkdir(parents=True)
    (folder / "clusters_temperature.csv").touch()
    return folder


def test_names_of_the_archive_are_translated(tmp_path):
    for algorithm in sorted(ALGORITHMS):
        write_run(tmp_path, algorithm, ("CIFAR10", "overlaping", "imbalanced", "30"), (7, 14, 9))
    found = layout.find_runs(tmp_path)
    assert [run.algorithm for run in found] == list(ALGORITHMS.values())
    assert {run.scenario.name for run in found} == {"cifar10-30-overlapping-imbalanced"}


def test_archived_runs_equal_the_preset_but_for_the_model():
    """The rounds given here are the published ones, so only the model, and with it the id, is another."""
    ours = load_grid("paper-as-published", {}, [], None).runs
    for run in ours:
        scenario = layout.SCENARIOS[run.scenario]
        found = layout.RunFiles(scenario, run.algorithm.name, None, None, measures_temperature=False)
        archived = build_config(found, run.training.rounds)
        model = "archive-cnn" if run.dataset in ("mnist", "fmnist") else "archive-resnet34"
        assert archived.model_dump() == run.model_dump() | {"model": model}
        assert archived.run_id != run.run_id
        assert is_archived(archived)
        assert not is_archived(run)


def test_folders_without_runs_are_skipped_at_every_level(tmp_path):
    """As are the plots, notes and trials that stand among the authors' runs."""
    write_run(tmp_path, "kmeans")
    strays = [
        "experiments/MNIST/nonoverlaping/balanced/15/comparison",
        "experiments/MNIST/nonoverlaping/plots",
        "experiments/MNIST/overlapping",
        "experiments/summary",
        "temperature_experiments/MNIST/old",
    ]
    for stray in strays:
        (tmp_path / stray / "inner").mkdir(parents=True)
    (tmp_path / "experiments" / ".ipynb_checkpoints").mkdir()
    (tmp_path / "experiments" / "MNIST" / "notes.txt").touch()
    assert len(layout.find_runs(tmp_path)) == 1
    assert layout.find_temperature_runs(tmp_path) == []


def test_centralised_trainings_are_found_by_their_files(tmp_path):
    """BLOODMNIST has several trials; a folder that only has explanations holds none."""
    names = {
        "MNIST/centralised_test": ["final_test.csv", "training_loss.csv", "validation_results.csv"],
        "BLOODMNIST/centralised_test/lr_1e-3": ["final_test.csv"],
        "BLOODMNIST/centralised_test/lr_1e-6/results": ["training_loss.csv"],
        "CIFAR10/centralised_test/explanations": ["CIFAR10_explanations.csv"],
    }
    for folder, files in names.items():
        (tmp_path / "experiments" / folder).mkdir(parents=True)
        for file in files:
            (tmp_path / "experiments" / folder / file).touch()
    assert [(found.dataset, found.name) for found in layout.find_trainings(tmp_path)] == [
        ("mnist", "centralised_test"),
        ("bloodmnist", "centralised_test/lr_1e-3"),
        ("bloodmnist", "centralised_test/lr_1e-6/results"),
    ]


def test_temperature_run_is_found_anywhere_below_its_scenario(tmp_path):
    scenarios = tmp_path / "temperature_experiments"
    folders = [
        touch(scenarios.joinpath("MNIST", "nonoverlaping", "balanced", "15", "run", "results")),
        touch(scenarios.joinpath("CIFAR10", "overlaping", "balanced", "30")),
    ]
    found = layout.find_temperature_runs(tmp_path)
    assert [run.folder for run in found] == folders
    assert [(run.scenario.name, run.algorithm) for run in found] == [
        ("mnist-15-nonoverlapping-balanced", "fedavg"),
        ("cifar10-30-overlapping-balanced", "fedavg"),
    ]


def test_temperature_run_differs_from_the_run_of_the_tables(tmp_path):
    """Neither clusters and both have 50 rounds on MNIST: only the seed differs."""
    touch(tmp_path.joinpath("temperature_experiments", *SCENARIO))
    write_run(tmp_path, "baseline")
    of_tables, of_temperatures = (
        build_config(*layout.find_runs(tmp_path), 50),
        build_config(*layout.find_temperature_runs(tmp_path), 50),
    )
    assert of_temperatures.model_dump() == of_tables.model_dump() | {"seed": 1}


def test_temperature_run_of_cifar10_has_its_own_training(tmp_path):
    touch(tmp_path.joinpath("temperature_experiments", "CIFAR10", *SCENARIO[1:]))
    training = build_config(*layout.find_temperature_runs(tmp_path), 50).training
    assert (training.learning_rate, training.momentum, training.weight_decay) == (0.005, 0.85, 5e-4)


def test_folder_without_runs_is_not_an_archive(tmp_path):
    (tmp_path / "datasets").mkdir()
    with pytest.raises(ConfigError, match="nor temperature_experiments/; name a bundle"):
        layout.check_archive(tmp_path)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cluster_id_mapping.csv", "link"),
        ("cluster_id_mapping.csv", "pipe"),
        ("", "link"),
        ("../../../../../../../datasets", "link"),
    ],
)
def test_archive_with_a_link_or_a_pipe_is_refused(tmp_path, name, kind):
    """Nothing outside of it is read, and nothing is waited for."""
    archive, outside = tmp_path / "archive", tmp_path / "outside"
    path = Path(os.path.normpath(write_run(archive, "kmeans") / name))
    outside.mkdir()
    if path.exists():
        path.rename(outside / "moved")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(outside / "moved")
    with pytest.raises(ConfigError, match=f"{path.name} is (a link|no regular file)"):
        layout.check_archive(archive)
