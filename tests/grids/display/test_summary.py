"""The summary at the end of a launch."""

import csv
import io

import pytest
from rich.console import Console

from fedgrid.engine.clients.pool import InProcessPool
from fedgrid.engine.round_cache.store import CacheOptions
from fedgrid.engine.session import Session
from fedgrid.engine.storage.storage import Storage
from fedgrid.engine.uplink.accountant import epsilon
from fedgrid.grids.display.summary import show, write_summary
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.presets.grid import Grid
from tests.helpers.small_grid import NOWHERE, config

RUNS = (config(seed=1), config(seed=1, algorithm="sattler"))
"""Of one trunk."""


def run_all(folder, store, runs=RUNS):
    storage = Storage.of(folder)
    session = Session(InProcessPool(), NOWHERE, store=store)
    for run in runs:
        for _ in run_to_end(session, run, storage, lambda: False):
            pass
    return storage


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return run_all(tmp_path_factory.mktemp("shared"), CacheOptions())


def shown(storage, width=100, runs=RUNS):
    text = io.StringIO()
    show(Grid("mine", runs, ""), storage, "sqlite:///mlflow.db", [], None, Console(file=text, width=width))
    return text.getvalue()


@pytest.mark.parametrize("width", [80, 100])
def test_summary_names_the_time_without_the_cache_on_any_terminal(shared, width):
    assert "\nalone: without the round cache; all runs together " in shown(shared, width)


def test_summary_without_cache_hits_names_no_other_time(tmp_path):
    assert "alone" not in shown(run_all(tmp_path, None))


def test_summary_names_the_epsilons_of_runs_with_noise(shared, tmp_path):
    """Each round is a squared distance of 1 / 100; `epsilon` itself is tested against opacus."""
    noisy = (config(seed=1, uplink=[{"clip": 1.0}, {"noise": 10}]),)
    text = shown(run_all(tmp_path, None, noisy), runs=noisy)
    expected = epsilon(noisy[0].training.rounds / 10**2, 1e-5)
    assert f"\nepsilon of a client at the end: {expected:.3g}, delta 1e-05; " in text
    assert "epsilon" not in shown(shared)


def test_summary_file_has_both_times_of_each_run(shared, tmp_path):
    """The first computed all of its rounds, the second took some or all of them."""
    with write_summary(RUNS, shared, tmp_path).open(newline="") as file:
        plain, taker = csv.DictReader(file)
    assert plain["seconds"] == plain["alone_seconds"]
    assert float(taker["seconds"]) <= float(taker["alone_seconds"])
