"""The summary at the end of a launch."""

import csv
import io
import shutil

import numpy as np
import pytest
from rich.console import Console

from fedgrid.engine.federation.uplink.ledger import compute_epsilon
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.summary import show_summary, write_summary
from fedgrid.grids.display.tables import build_result_row
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.runs import read_runs
from tests.helpers.finished_runs import mark_finished
from tests.helpers.small_grid import NOWHERE, config

RUNS = (config(seed=1), config(seed=1, algorithm="sattler"))
"""Of one shared prefix."""


def run_all(folder, cache, runs=RUNS):
    storage = Storage.from_text(folder)
    session = Session(InProcessPool(), NOWHERE, cache=cache)
    for run in runs:
        for _ in run_to_end(session, run, storage, lambda: False):
            pass
    return storage


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return run_all(tmp_path_factory.mktemp("shared"), CacheOptions())


def shown(storage, runs=RUNS):
    text = io.StringIO()
    show_summary(
        Grid("mine", runs, ""), storage, "sqlite:///mlflow.db", [], None, Console(file=text, width=100)
    )
    return text.getvalue()


def test_summary_explains_scores_and_times_and_says_what_was_trained_and_what_papers_call_it(shared):
    text = " ".join(shown(shared).split())
    trained = ("Trained: digitnet, sgd, learning rate 0.1", "weights none: all clients count alike")
    uncached = "without the round cache (uncached) to "
    for part in (uncached, "about 0 by chance", "no group is split", "fedavg BNC, sattler SCL", *trained):
        assert part in text


def test_summary_names_the_epsilons_of_runs_with_noise(shared, tmp_path):
    """Each round is a squared distance of 1 / 100; `epsilon` itself is tested against opacus."""
    noisy = (config(seed=1, uplink=[{"clip": 1.0}, {"noise": 10}]),)
    text = shown(run_all(tmp_path, None, noisy), runs=noisy)
    expected = compute_epsilon(noisy[0].training.rounds / 10**2, 1e-5)
    assert f"\nepsilon of a client at the end: {expected:.3g}, delta 1e-05; " in text
    assert "epsilon" not in shown(shared)


def outcome(storage, run):
    return build_result_row(*read_runs([run], storage))


def test_several_seeds_are_one_table_of_means(tmp_path, shared):
    """The mean of the two scores, and their deviation, stand in one row."""
    other = config(seed=2)
    shutil.copytree(shared.root, tmp_path / "runs")
    grid = Grid("mine", (RUNS[0], other), "")
    storage = run_all(tmp_path / "runs", None, [other])
    summary = shown(storage, runs=grid.runs)
    values = [outcome(storage, run)["personalised_accuracy"] for run in grid.runs]
    assert f"{sum(values) / 2:.3f}" in summary
    assert f"±{np.std(values, ddof=1):.3f}".replace("±0.", "±.") in summary
    assert summary.count("Final round") == 1
    assert "Each run:  fedgrid show mine" in summary


def test_summary_file_has_variants_settings_and_folders_within_the_storage(tmp_path):
    runs = [config(seed=1, algorithm={"name": "briggs", "threshold": value}) for value in (0.1, 0.2)]
    for run in runs:
        mark_finished(tmp_path, run)
    with write_summary(runs, GridFolder(Storage.from_text(tmp_path), "mine")).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["variant"] for row in rows] == ["threshold 0.1", "threshold 0.2"]
    assert [row["algorithm.threshold"] for row in rows] == ["0.1", "0.2"]
    assert [row["folder"] for row in rows] == [f"{run.name}-{run.run_id}" for run in runs]
