"""What a storage lies on, by a table of mounts as the kernel writes it."""

import fcntl

import pytest

from fedgrid.grids.upkeep import disk


@pytest.fixture
def mounted(monkeypatch, tmp_path):
    """Return a function that mounts a kind of file system at a folder below the test's."""
    table = tmp_path / "mountinfo"
    table.write_text("22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n")
    monkeypatch.setattr(disk, "MOUNTS", table)

    def mount(kind, device="server:/export", at="store"):
        place = tmp_path / at
        place.mkdir(exist_ok=True)
        written = str(place).replace(" ", r"\040")
        with table.open("a") as file:
            file.write(f"40 22 0:30 / {written} rw,nosuid shared:2 master:1 - {kind} {device} rw,vers=4\n")
        return place

    return mount


@pytest.mark.parametrize("kind", ["nfs4", "nfs", "lustre", "gpfs", "beegfs", "fuse.sshfs", "cifs"])
def test_network_file_system_is_told(mounted, kind):
    found = disk.look(mounted(kind) / "runs", on_several_machines=True)
    assert found.facts["file system"] == f"{kind} of server:/export, over the network"
    assert found.facts["locks"] == "work"
    assert found.problems == []


def test_local_disk_is_told(mounted, tmp_path):
    found = disk.look(mounted("xfs", "/dev/sdb1", at="a b") / "runs", on_several_machines=False)
    assert found.facts["file system"] == "xfs, on this machine"
    assert disk.file_system(tmp_path) == ("ext4", "/dev/vda")


def test_local_disk_is_a_problem_of_a_job_on_several_machines(mounted):
    place = mounted("xfs")
    [problem] = disk.look(place, on_several_machines=True).problems
    assert str(place) in problem
    assert "all of them mount" in problem


def test_later_mount_at_one_place_is_the_one_that_is_seen(mounted):
    mounted("autofs", "systemd-1")
    assert disk.file_system(mounted("nfs4"))[0] == "nfs4"


def test_folder_in_memory_is_told_to_be_lost(mounted):
    found = disk.look(mounted("tmpfs", "tmpfs"), on_several_machines=False)
    assert "lost at a restart" in found.facts["file system"]
    assert "copy what you keep" in found.facts["kept"]


def test_locks_that_fail_are_a_problem_with_another_place_for_the_database(mounted, monkeypatch):
    def refuse(file, how):
        raise OSError(37, "No locks available")

    place = mounted("nfs")
    monkeypatch.setattr(fcntl, "lockf", refuse)
    [problem] = disk.look(place, on_several_machines=False).problems
    assert "No locks available" in problem
    assert "MLFLOW_TRACKING_URI" in problem
    assert list(place.iterdir()) == []


def test_little_room_is_a_problem(mounted, monkeypatch):
    monkeypatch.setattr(disk, "LEAST_FREE", 10**18)
    [problem] = disk.look(mounted("ext4"), on_several_machines=False).problems
    assert "free in" in problem
    assert "fedgrid cache" in problem


def test_machine_that_tells_no_mounts_is_no_problem(monkeypatch, tmp_path):
    monkeypatch.setattr(disk, "MOUNTS", tmp_path / "none")
    found = disk.look(tmp_path, on_several_machines=False)
    assert found.facts["file system"] == "unknown, on this machine"
