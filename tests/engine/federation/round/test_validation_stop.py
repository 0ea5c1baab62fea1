"""Early stopping: which round is a run's last one, whatever it is cut into, and who may ask for it."""

from math import isnan
from statistics import fmean

import pytest

from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path, find_last_round
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import RunFinished, run_to_end
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.runs import describe_configs, read_runs
from fedgrid.grids.results.study import load_run
from fedgrid.manifest import read_manifest
from fedgrid.tracking.records import read_table
from tests.helpers.small_runs import CACHE, NOWHERE, config, play, read_numbers, rows

AFTER, MOST = 2, 30


def stopping(rounds=MOST, **given):
    training = {"rounds": rounds, "stop_after": AFTER, "learning_rate": 0.5, **given.pop("training", {})}
    return config(training=training, split={"scored_on": "validation"}, **given)


def run(asked, root, at_most=MOST):
    """Run a run, up to some rounds, with a session of its own."""
    storage = Storage.from_text(root)
    session = Session(InProcessPool(), NOWHERE, cache=CACHE)
    done = RunFolder(storage, asked).rounds_done
    return [*run_to_end(session, asked, storage, lambda: False, done + at_most)][-1]


def scores_of(asked, root):
    """Round -> mean personalised accuracy of its clients, of the rounds that were tested."""
    by_round = {}
    for row in rows(asked, root, "clients"):
        if (accuracy := row["personalised_accuracy"]) is not None and not isnan(accuracy):
            by_round.setdefault(row["round"], []).append(accuracy)
    return {number: fmean(values) for number, values in by_round.items()}


@pytest.mark.parametrize(
    "given", [{}, {"evaluation": {"every": 3}}, {"held_out": 0.3}, {"dropout": 0.5}], ids=str
)
def test_it_ends_where_the_records_say_so_also_if_every_round_has_a_session_of_its_own(given, tmp_path):
    asked = stopping(**given)
    assert isinstance(run(asked, tmp_path / "one"), RunFinished)
    number = find_last_round(folder := build_folder_path(tmp_path / "one", asked), asked)
    manifest = read_manifest(folder)
    assert (manifest.is_finished, manifest.rounds_done, manifest.rounds) == (True, number, MOST)
    assert manifest.list_segments("clients") == ["clients.parquet"], "joined"
    scores = scores_of(asked, tmp_path / "one")
    best = max(scores, key=lambda of: (scores[of], -of))
    assert best + AFTER <= number < MOST
    assert not any(best + AFTER <= tested < number for tested in scores), "an earlier tested round"
    assert number in scores
    while not isinstance(run(asked, tmp_path / "cut", 1), RunFinished):
        pass
    assert read_numbers(build_folder_path(tmp_path / "cut", asked)) == read_numbers(folder)
    storage = Storage.from_text(tmp_path / "one")
    for row in (*read_runs([asked], storage), *describe_configs([asked], storage), load_run(asked, storage)):
        assert row.stopped == f"stopped after round {number} of {MOST}"
    assert is_finished(storage, asked)


def test_rounds_are_those_of_a_run_without_it_and_of_one_that_was_to_have_more(tmp_path):
    asked, whole = stopping(), stopping(training={"stop_after": None})
    run(asked, tmp_path)
    number = find_last_round(build_folder_path(tmp_path, asked), asked)
    play(whole, tmp_path, until=number)
    one, other = (
        read_table(build_folder_path(tmp_path, each), "clients").to_pylist() for each in (whole, asked)
    )
    assert str(one) == str(other), "NaN beside NaN"
    longer = stopping(rounds=MOST + 10)
    run(longer, tmp_path)
    folder = build_folder_path(tmp_path, longer)
    assert find_last_round(folder, longer) == number
    assert (
        f"rounds 1 to {number} are those of {build_folder_path(tmp_path, asked).name}"
        in (folder / "log.txt").read_text()
    )


def test_a_run_without_it_keeps_its_id_and_shares_rounds_with_one_that_has_it():
    plain = stopping(training={"stop_after": None})
    assert "stop_after" not in plain.canonical_json()
    assert plain.run_id != stopping().run_id
    assert plain.shared_prefix == stopping().shared_prefix
