"""What a storage lies on."""

import fcntl

import pytest

from fedgrid.grids.doctor import disk


def test_disk_of_this_machine_is_told_and_nothing_is_left(tmp_path):
    section = disk.look_at_disk(tmp_path / "runs", on_several_machines=False)
    assert section.facts["file system"] == disk.file_system(tmp_path) != "unknown"
    assert (section.facts["locks"], section.problems) == ("work", [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("kind", "count"), [("nfs4", 0), ("lustre", 0), ("xfs", 1), ("tmpfs", 1)])
def test_local_disk_is_a_problem_of_a_job_on_several_machines(monkeypatch, tmp_path, kind, count):
    monkeypatch.setattr(disk, "file_system", lambda folder: kind)
    problems = disk.look_at_disk(tmp_path, on_several_machines=True).problems
    assert len(problems) == count
    assert all(str(tmp_path) in problem and "all of them mount" in problem for problem in problems)


def test_locks_that_fail_are_a_problem_with_another_place_for_the_database(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    [problem] = disk.look_at_disk(tmp_path, on_several_machines=False).problems
    assert "No locks available" in problem
    assert "MLFLOW_TRACKING_URI" in problem
    assert list(tmp_path.iterdir()) == []


def test_little_room_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "LEAST_FREE", 10**18)
    [problem] = disk.look_at_disk(tmp_path, on_several_machines=False).problems
    assert "free in" in problem
    assert "fedgrid cache" in problem


def test_machine_without_df_is_no_problem(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    section = disk.look_at_disk(tmp_path, on_several_machines=True)
    assert (section.facts["file system"], section.problems) == ("unknown", [])
