"""Files of another run or search, undamaged in themselves, are damage where they were copied to."""

import shutil

import pytest

from fedgrid.engine.runtime.run.run_folder import FAILED, RunFolder, folder_of
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results import outcome
from fedgrid.grids.results.outcome import damage, state
from fedgrid.grids.results.times import times_of
from fedgrid.manifest import MANIFEST
from fedgrid.tracking.records import RecordsError, read_records
from tests.helpers.manifests import list_files
from tests.helpers.small_grid import ROUNDS, config, take
from tests.helpers.small_runs import numbers

RUN, OTHER = config(0), config(1)
STATE = f"state-{ROUNDS:06d}"
TABLES = ("rounds.parquet", "clients.parquet", "timings.parquet")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Two finished runs."""
    root = tmp_path_factory.mktemp("finished")
    for seed in (0, 1):
        take(Storage.of(root), seed)
    return root


@pytest.fixture
def root(finished, tmp_path):
    """A copy of them, in which the first run is not finished: it has its files but those of its end."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    outcome._CHECKED.clear()
    return tmp_path


def copy(root, *names):
    """Copy files of the other run into the first one's folder."""
    for name in names:
        shutil.copy(folder_of(root, OTHER) / name, folder_of(root, RUN) / name)


def unfinish(root):
    """Take the end from the first run; return its folder."""
    folder = folder_of(root, RUN)
    (folder / "scores.json").unlink()
    list_files(folder, is_finished=False)
    return folder


def test_newest_state_of_another_run_is_set_aside(root, finished):
    folder = unfinish(root)
    copy(root, f"{STATE}.safetensors")
    take(Storage.of(root), 0)
    assert [path.name for path in (folder / "damaged-1").iterdir()] == [f"{STATE}.safetensors"]
    shutil.rmtree(folder / "damaged-1")
    assert numbers(folder) == numbers(folder_of(finished, RUN))


def test_records_of_another_run_are_set_aside_and_made_again(root, finished):
    folder = unfinish(root)
    copy(root, *TABLES)
    with pytest.raises(RecordsError, match=r"rounds.parquet: its bytes differ|it has .* bytes, not"):
        read_records(folder)
    with pytest.raises(DamagedFile, match=r"timings.parquet is damaged"):
        times_of(folder)
    take(Storage.of(root), 0)
    assert set(TABLES) <= {path.name for path in (folder / "damaged-1").iterdir()}
    shutil.rmtree(folder / "damaged-1")
    assert numbers(folder) == numbers(folder_of(finished, RUN))


def test_finished_run_reads_no_segments(root):
    """Neither those of another run, which would be damage, nor of its own."""
    folder = folder_of(root, RUN)
    for other in (folder_of(root, OTHER), folder):
        for name in TABLES:
            shutil.copy(other / name, folder / name.replace(".", f"-{ROUNDS + 1:06d}-{ROUNDS + 1:06d}-0a."))
        assert read_records(folder).round_R.tolist() == [1, 2, 3]
        assert times_of(folder).rounds == ROUNDS
        assert damage(Storage.of(root), RUN) is None


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("scores.json", f"scores.json is damaged (it is of run {OTHER.run_id}, not {RUN.run_id})"),
        ("timings.parquet", "timings.parquet is damaged (it"),
        ("clients.parquet", "clients.parquet is damaged (it"),
        (MANIFEST, f"manifest.json is damaged (it is of run {OTHER.run_id}, not {RUN.run_id})"),
    ],
)
def test_file_of_another_run_is_named(root, name, cause):
    copy(root, name)
    assert cause in str(damage(Storage.of(root), RUN))


def test_sizes_are_compared_before_a_byte_is_read(root, monkeypatch):
    """A sparse file of gigabytes takes no time."""
    file = folder_of(root, RUN) / "clients.parquet"
    with file.open("r+b") as opened:
        opened.truncate(15 << 30)
    whole = file.stat().st_size
    assert f"it has {whole:,} bytes, not " in str(damage(Storage.of(root), RUN))


def test_finished_run_without_its_states_is_no_damage(root):
    """They are needed for further work on its models only."""
    for path in folder_of(root, RUN).glob("state-*"):
        path.unlink()
    assert damage(Storage.of(root), RUN) is None


def test_failure_of_another_run_is_damage(root):
    unfinish(root)
    RunFolder(Storage.of(root), OTHER).fail("its own cause", 1)
    copy(root, FAILED)
    assert state(Storage.of(root), RUN)[1] == "failed.json is damaged; see log.txt"
