"""Whether Ray, storage and MLflow can be reached, and what a storage lies on."""

import fcntl

import pytest

from fedgrid.grids.doctor import places


def test_disk_is_described_and_nothing_is_left(tmp_path):
    section = places.describe_disk(tmp_path / "runs", is_shared=False)
    assert section.facts["file system"] == places.file_system(tmp_path) != "unknown"
    assert (section.facts["locks"], section.missing) == ("work", [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("kind", "count"), [("nfs4", 0), ("lustre", 0), ("xfs", 1), ("tmpfs", 1)])
def test_job_on_several_machines_lacks_a_folder_if_the_disk_is_local(monkeypatch, tmp_path, kind, count):
    monkeypatch.setattr(places, "file_system", lambda folder: kind)
    missing = places.describe_disk(tmp_path, is_shared=True).missing
    assert len(missing) == count
    assert all(str(tmp_path) in text and kind in text for text in missing)


def test_locks_that_fail_are_missing_with_the_cause(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    [missing] = places.describe_disk(tmp_path, is_shared=False).missing
    assert "No locks available" in missing
    assert "MLflow" in missing
    assert list(tmp_path.iterdir()) == []


def test_little_room_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "LEAST_FREE", 10**18)
    [missing] = places.describe_disk(tmp_path, is_shared=False).missing
    assert str(tmp_path) in missing


def test_machine_without_df_lacks_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    section = places.describe_disk(tmp_path, is_shared=True)
    assert (section.facts["file system"], section.missing) == ("unknown", [])


def test_token_that_clusters_need_is_named_and_not_shown(tmp_path, monkeypatch):
    file = tmp_path / "token"
    monkeypatch.setattr(places.cluster, "find_address", lambda: places.cluster.LOCAL)
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(file))
    assert f"needs {file}: `ray get-auth-token --generate`" in places.describe_ray().facts["token"]
    file.write_text("0123456789abcdef")
    assert places.describe_ray().facts["token"] == str(file)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef")
    assert places.describe_ray().facts["token"] == "that of RAY_AUTH_TOKEN"
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    assert places.describe_ray().facts["token"] == "not used (RAY_AUTH_MODE=disabled)"
