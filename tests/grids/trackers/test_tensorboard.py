"""Runs in TensorBoard's event files: every round once, whatever happened in between."""

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.trackers.tensorboard import TensorBoardTracker, delete_events, events_folder, read_events
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun
from tests.helpers.logged_runs import ROUNDS, STARTED_MS, build_config, new_session, write_run

CONFIG = build_config(0)


@pytest.fixture
def session(tmp_path):
    return new_session(tmp_path, TensorBoardTracker)


@pytest.fixture
def folder(tmp_path):
    """Return where the events of the run are."""
    grid = TrackedGrid("mine", Storage(tmp_path))
    return events_folder(TrackedRun.from_config(CONFIG, grid.storage), grid)


def lacks(storage):
    grid = TrackedGrid("mine", Storage(storage))
    return TensorBoardTracker.lacks(TrackedRun.from_config(CONFIG, grid.storage), grid)


def points(folder, key):
    """Return step -> value of a metric, as often as it is there."""
    values = ((event.step, value) for event in read_events(folder) for value in event.summary.value)
    return [(step, round(value.simple_value, 6)) for step, value in values if value.tag == key]


def test_finished_run_has_a_curve_for_each_metric_and_its_figure(tmp_path, session, folder):
    write_run(tmp_path, CONFIG, ROUNDS)
    assert session.sync_runs([CONFIG], with_figures=True) == (1, ROUNDS)
    assert folder == next((tmp_path / "tensorboard" / "mine").iterdir())
    assert points(folder, "clustering/temperature") == [(1, 0.4), (2, 0.3), (3, 0.2), (4, 0.1)]
    assert points(folder, "clustering/ari")[-1] == (4, 1.0)
    values = [
        value.simple_value for event in read_events(folder) if event.step for value in event.summary.value
    ]
    assert all(value == value for value in values), "what was not measured is not there"
    ends = [event.wall_time for event in read_events(folder) if event.step]
    assert ends == [STARTED_MS / 1000 + 0.5 * number for number in (1, 2, 3, 4)]
    [image] = [
        value for event in read_events(folder) for value in event.summary.value if value.HasField("image")
    ]
    assert image.tag == "figures/run"
    assert image.image.width > 100
    assert image.image.encoded_image_string.startswith(b"\x89PNG")
    assert new_session(tmp_path, TensorBoardTracker).sync_runs([CONFIG]) == (0, 0)


def test_resumed_run_has_each_round_once_also_after_half_an_event(tmp_path, session, folder):
    """The first process is killed while it writes round 2; the next finds round 1."""
    write_run(tmp_path, CONFIG, 2)
    session.update_run(CONFIG)
    [file] = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    assert [step for step, _ in points(folder, "clustering/ari")] == [1]
    write_run(tmp_path, CONFIG, ROUNDS)
    assert new_session(tmp_path, TensorBoardTracker).update_run(CONFIG) == ROUNDS - 1
    assert [step for step, _ in points(folder, "clustering/ari")] == [1, 2, 3, 4]


def test_run_is_lacking_until_it_is_finished(tmp_path, session):
    write_run(tmp_path, CONFIG, 2)
    session.update_run(CONFIG, "KILLED")
    assert lacks(tmp_path)
    write_run(tmp_path, CONFIG, ROUNDS)
    session.update_run(CONFIG)
    assert not lacks(tmp_path)


def test_deleted_run_starts_over(tmp_path, session, folder):
    write_run(tmp_path, CONFIG, ROUNDS)
    session.update_run(CONFIG)
    session.forget_run(CONFIG)
    assert lacks(tmp_path)
    write_run(tmp_path, CONFIG, 1)
    session.update_run(CONFIG)
    assert [step for step, _ in points(folder, "clustering/ari")] == [1]


def test_events_of_deleted_runs_and_grids_go(tmp_path, session, folder):
    other = build_config(1)
    for config in (CONFIG, other):
        write_run(tmp_path, config, 1)
        session.update_run(config)
    delete_events("mine", Storage(tmp_path), [CONFIG.run_id])
    assert not folder.exists()
    assert len([*folder.parent.iterdir()]) == 1
    delete_events("mine", Storage(tmp_path))
    assert not folder.parent.exists()


def test_length_that_exceeds_the_file_is_its_end(tmp_path):
    """A storage may come from somebody else."""
    (tmp_path / "events.out.tfevents.1.a").write_bytes(b"\xff" * 40)
    assert list(read_events(tmp_path)) == []
