"""Finished runs whose files have not changed are not read again by `status` and `run`; others are."""

import json
import os
import shutil

import pytest

from fedgrid.engine.runtime.run.run_folder import FAILED, RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results import checked_runs, outcome
from fedgrid.grids.results.outcome import (
    find_damage,
    is_finished,
    read_scores,
    read_state,
    trust_times,
    write_scores,
)
from fedgrid.grids.results.runs import read_runs
from fedgrid.grids.results.times import read_times
from fedgrid.manifest import MANIFEST
from fedgrid.tracking.records import read_records
from tests.helpers.finished_runs import mark_finished
from tests.helpers.logged_runs import ROUNDS, build_config, write_run
from tests.helpers.manifests import list_files
from tests.helpers.run_folders import TABLES

RUN = build_config(0)


@pytest.fixture
def storage(tmp_path, monkeypatch):
    """A storage with a finished run, whose files count as settled at once."""
    monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(checked_runs, "SETTLED", -1.0)
    found = Storage.from_text(tmp_path / "runs")
    write_run(found.root, RUN, ROUNDS)
    mark_finished(found.root, RUN)
    return found


@pytest.fixture
def reads(storage, monkeypatch):
    """Forget what this process has seen when called; return how often it has read a run's files since."""
    found = []
    plain = RunFolder.find_damage

    def noting(folder):
        found.append(folder.path.name)
        return plain(folder)

    monkeypatch.setattr(RunFolder, "find_damage", noting)

    def since():
        outcome._CHECKED_RUNS.clear()
        count = len(found)
        found.clear()
        return count

    return since


@pytest.fixture
def of_other(storage):
    """Return a function that copies a file of another finished run into the run's folder."""
    other = RunFolder(storage, build_config(1))
    write_run(storage.root, build_config(1), ROUNDS)
    mark_finished(storage.root, build_config(1))

    def copy(name):
        shutil.copy(other.path / name, RunFolder(storage, RUN).path)
        return f"it is of run {build_config(1).run_id}, not {RUN.run_id}"

    return copy


def test_scores_of_another_run_are_damage_and_no_numbers(storage, of_other):
    """Copied by hand, undamaged and sealed. What knows the run says that it is damaged; no score is shown."""
    [row] = read_runs([RUN], storage)
    assert (row.state, row.value("ari") is None) == ("finished", False)
    assert of_other("scores.json") in find_damage(storage, RUN)
    assert not is_finished(storage, RUN)
    with pytest.raises(DamagedFile):
        read_scores(RunFolder(storage, RUN).path, RUN.run_id)
    [row] = read_runs([RUN], storage)
    assert row.state == "damaged"
    assert [row.value(name) for name in ("ari", "clusters", "temperature")] == [None] * 3


def test_manifest_and_failure_of_another_run_are_damage(storage, of_other):
    assert of_other(MANIFEST) in find_damage(storage, RUN)
    list_files(RunFolder(storage, RUN).path, is_finished=False)
    RunFolder(storage, build_config(1)).mark_failed("its own cause", 1)
    of_other(FAILED)
    assert read_state(storage, RUN)[1] == "failed.json is damaged; see log.txt"


def test_finished_run_reads_its_own_tables_alone(storage):
    """Neither segments that lie beside them, nor those of another run."""
    folder = RunFolder(storage, RUN).path
    for name in TABLES:
        shutil.copy(folder / name, folder / name.replace(".", "-000005-000005-0a."))
    assert read_records(folder).round_R.tolist() == [1, 2, 3, 4]
    assert read_times(folder).rounds == ROUNDS
    assert find_damage(storage, RUN) is None


def test_sizes_are_compared_before_a_byte_is_read(storage):
    """A sparse file of gigabytes takes no time."""
    file = RunFolder(storage, RUN).path / "clients.parquet"
    os.truncate(file, 15 << 30)
    assert f"it has {15 << 30:,} bytes, not " in find_damage(storage, RUN)


def look(storage):
    with trust_times(storage):
        return is_finished(storage, RUN)


def test_second_command_does_not_read_the_files_of_an_unchanged_run(storage, reads):
    assert look(storage)
    assert reads() == 1
    assert look(storage)
    assert reads() == 0


def test_report_reads_the_files_that_status_does_not(storage, reads):
    """Bits that a disk has lost change neither size nor times nor inode."""
    assert look(storage)
    reads()
    assert is_finished(storage, RUN)
    assert reads() == 1


@pytest.mark.parametrize("name", ["manifest.json", "scores.json", TABLES[0], "config.json"])
def test_change_of_any_file_is_found_although_the_run_is_remembered(storage, reads, name):
    assert look(storage)
    path = RunFolder(storage, RUN).path / name
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    reads()
    assert not look(storage)
    assert name in find_damage(storage, RUN)


def test_times_of_an_unchanged_run_are_read_once(storage, monkeypatch):
    """Four rounds of half a second; the last one had the most memory."""
    plain, found = outcome.read_times, []
    monkeypatch.setattr(outcome, "read_times", lambda folder: found.append(folder) or plain(folder))
    for _ in range(2):
        with trust_times(storage):
            assert is_finished(storage, RUN)
            [run] = read_runs([RUN], storage)
            assert [run.times[name] for name in ("seconds", "rounds", "peak_memory_mb")] == [2.0, 4, 400.0]
        outcome._CHECKED_RUNS.clear()
    assert len(found) == 1
    assert read_runs([RUN], storage)[0].times == run.times
    assert len(found) == 2


@pytest.mark.parametrize("text", ["{", '{"runs": 3}'])
def test_damaged_memory_costs_only_time(storage, reads, tmp_path, text):
    assert look(storage)
    [memory] = (tmp_path / "cache" / checked_runs.CHECKED).iterdir()
    memory.write_text(text)
    reads()
    assert look(storage)
    assert reads() == 1


def test_scores_of_another_version_of_the_scoring_are_computed_again(storage, monkeypatch):
    """They are written with the version, but for the first."""
    folder = build_folder_path(storage.root, RUN)
    (folder / "config.json").write_text(json.dumps(RUN.written()))
    assert "scoring" not in json.loads((folder / "scores.json").read_text())
    monkeypatch.setattr(outcome, "SCORING_VERSION", 2)
    monkeypatch.setattr(outcome, "score_run", lambda folder, published: {"ari": 0.5})
    assert read_scores(folder, RUN.run_id) == {"ari": 0.5}
    write_scores(RUN, storage)
    monkeypatch.setattr(outcome, "score_run", lambda folder, published: pytest.fail("computed again"))
    assert read_scores(folder, RUN.run_id) == {"ari": 0.5}
