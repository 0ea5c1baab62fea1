"""Some power cuts in the middle of two runs; all of them: python -m tests.chaos.power_loss."""

import os
import random

import pytest

from tests.chaos.power_loss import Disk, Moment, cut, restarted, results, work


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return what a disk has seen of two runs, and their files at the end."""
    root = tmp_path_factory.mktemp("power") / "runs"
    root.mkdir()
    disk = Disk(root)
    with disk.recording():
        work(root)
    return disk.moments, results(root)


def first(moments: list[Moment], name: str, rounds_done: int = 0) -> int:
    """Return the first step after which a file of that name is there, or a manifest with so many rounds."""
    words = f'"rounds_done": {rounds_done}'.encode() if rounds_done else b""
    return next(
        at
        for at, each in enumerate(moments)
        if any(path.endswith(f"/{name}") and words in each.files[path].data for path in each.files)
    )


@pytest.mark.parametrize(
    ("name", "rounds_done", "loses_rename"),
    [
        ("state-000002.safetensors", 0, False),
        ("manifest.json", 2, False),
        ("manifest.json", 2, True),
        ("manifest.json", 3, True),
        ("scores.json", 0, False),
    ],
)
def test_power_cut_changes_no_file(undisturbed, name, rounds_done, loses_rename):
    moments, expected = undisturbed
    left = cut(moments, first(moments, name, rounds_done), random.Random(0), loses_rename=loses_rename)
    assert restarted(left, expected) == []


def test_file_that_was_not_flushed_may_be_empty_after_a_cut(tmp_path):
    """The rules of the simulation: flushed bytes stay, others may not, a lost rename shows the old file."""
    disk = Disk(tmp_path)
    with disk.recording():
        (tmp_path / "new").write_text("first")
        with (tmp_path / "flushed").open("w") as file:
            file.write("whole")
            file.flush()
            os.fsync(file.fileno())
        (tmp_path / "flushed").replace(tmp_path / "kept")
    last = len(disk.moments) - 1
    seen = {cut(disk.moments, last, random.Random(seed), loses_rename=False)["new"] for seed in range(20)}
    assert seen == {b"", b"fi", b"first"}
    assert cut(disk.moments, last, random.Random(0), loses_rename=False)["kept"] == b"whole"
    assert "kept" not in cut(disk.moments, last, random.Random(0), loses_rename=True)
