"""The progress of a grid as it runs: on a terminal, in a log, for a program."""

import io
import json
import sys

import pytest
from rich.console import Console

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.progress import (
    JsonEvents,
    ProgressBars,
    ProgressLines,
    describe_work,
    format_headline,
)
from fedgrid.grids.display.tally import Tally
from fedgrid.grids.results.runs import failed_run, read_runs
from fedgrid.tracking.scoring.scores import score_rounds
from tests.helpers.small_grid import config, run_seed

TIMING = {"seconds": 2.0, "train_seconds": 1.0, "evaluate_seconds": 0.5}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a finished run of three rounds: its configuration, the scores of its rounds, its row."""
    storage = Storage.from_text(tmp_path_factory.mktemp("runs"))
    taken = run_seed(storage, seed=1)
    [run] = read_runs([taken], storage)
    return taken, dict(score_rounds(run.folder)), run


def show(view, run):
    """Show a run that is retried, one that fails and one that stops."""
    taken, scores, finished = run
    with view:
        view.show_start(taken, 0)
        view.show_round(taken, 1, scores[1])
        view.show_retry(taken, "its server died", 1)
        view.show_start(taken, 1)
        view.show_round(taken, 2, scores[2])
        view.show_result(taken, finished)
        view.show_start(config(seed=2), 0)
        bad = config(seed=2)
        view.show_result(bad, failed_run(bad, Storage.from_text(finished.folder.parent), "out of [memory]"))
        view.show_start(config(seed=3), 0)
        view.announce_stop()
        view.show_stop(config(seed=3))


def test_log_has_a_line_for_each_event(run):
    text = io.StringIO()
    show(ProgressLines(Console(file=text, width=200)), run)
    name = "digits-3-nonoverlapping-balanced-fedavg-s"
    lines = text.getvalue().splitlines()
    assert lines[0] == f"{name}1: starts"
    assert lines[1].startswith(f"{name}1 round 1/3 temp. 0.")
    assert lines[2] == f"{name}1: failed (its server died), is retried"
    assert lines[3] == f"{name}1: continues after round 1"
    assert lines[5].startswith(f"{name}1: finished clusters 1  ARI 0.00  acc. 0.")
    assert lines[7] == f"{name}2: out of [memory]"
    assert lines[-2:] == [
        "stopping after the rounds under way; Ctrl-C again stops at once",
        f"{name}3: stopped",
    ]


def test_json_has_an_object_on_each_line(run, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    show(JsonEvents(), run)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == [
        *("start", "round", "retry", "start", "round", "result"),
        *("start", "result", "start", "stopping", "stop"),
    ]
    assert (events[3]["rounds_done"], events[4]["round"], events[5]["clusters"]) == (1, 2, 1)
    assert (events[5]["error"], events[7]["error"]) == (None, "out of [memory]")
    assert events[5]["seconds"] >= 0
    assert (events[7]["seconds"], events[7]["uncached_seconds"]) == (0.0, 0.0)


def test_terminal_lists_ended_runs_above_the_bars(run):
    text = io.StringIO()
    taken, _, _ = run
    console = Console(file=text, width=120, force_terminal=True, color_system=None)
    show(ProgressBars(console, [taken, config(seed=2), config(seed=3)]), run)
    shown = text.getvalue()
    assert "done    fedavg s1  clusters 1  ARI 0.00  acc. 0." in shown
    assert "failed  fedavg s2: out of [memory]" in shown
    assert "stopped fedavg s3" in shown
    assert "retry   fedavg s1: its server died" in shown


def test_headline_counts_runs_and_names_the_time_left():
    now = [0.0]
    runs = [config(seed=seed) for seed in (1, 2, 3)]
    tally = Tally(runs, {}, finished_before=4, now=lambda: now[0])
    assert format_headline(tally) == "4 of 7 runs done, 0 running, 3 waiting; the first actors are starting"
    tally.count_start(runs[0], 0)
    now[0] = 2.0
    tally.count_round(runs[0], 1, TIMING)
    assert format_headline(tally) == "4 of 7 runs done, 1 running, 2 waiting; 2.0 s/round, 16 s left"
    tally.count_failure(runs[0])
    assert (
        format_headline(tally) == "4 of 7 runs done, 0 running, 2 waiting, 1 failed; 2.0 s/round, 12 s left"
    )


def test_work_done_names_computed_rounds_only_after_hits():
    """One of its two rounds was a cache hit."""
    now = [0.0]
    tally = Tally([config(seed=1)], {}, now=lambda: now[0])
    tally.count_start(config(seed=1), 0)
    now[0] = 3.0
    tally.count_round(config(seed=1), 1, TIMING)
    assert describe_work(tally) == "1 rounds in 3.0 s"
    tally.count_round(config(seed=1), 2, {**TIMING, "reached_clients": 4, "trained_clients": 0})
    assert describe_work(tally) == "2 rounds, 1 of them computed, in 3.0 s"
