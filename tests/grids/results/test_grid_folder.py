"""The folder of a grid: its runs, its progress, and the request to stop."""

import json
from pathlib import Path

import pytest

from fedgrid.algorithms.registry import is_reference
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.format import DamagedFile
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.grid import Grid
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results import grid_folder
from fedgrid.grids.results.grid_folder import GridFolder, list_grids
from fedgrid.sealed_json import LAYOUT
from tests.helpers.plugin_files import ALGORITHM

TEXT = "clients: 3\nalgorithm: fedavg\nseed: {seed}\n"


@pytest.fixture
def launch(tmp_path, storage):
    """Return a function that launches a file in a folder, as far as its name goes."""

    def launch(folder, seed=0, name=None, file="exp.yaml"):
        (tmp_path / folder).mkdir(exist_ok=True)
        path = tmp_path / folder / file
        path.write_text(TEXT.format(seed=seed))
        grid = load_grid(str(path), {}, [], tmp_path, name=name)
        GridFolder(storage, grid.name).check_source(grid)
        GridFolder(storage, grid.name).keep(grid.runs, grid.text, grid.source)
        return grid

    return launch


def test_edited_or_copied_file_is_the_same_grid(launch):
    """Copied as on a cluster, or after the folder was moved."""
    launch("o1")
    assert launch("o2").name == "exp"
    assert launch("o2", seed=1).name == "exp"


def test_two_files_of_one_name_are_refused(launch, storage, tmp_path):
    launch("o1")
    before = (GridFolder(storage, "exp").path / "preset.yaml").read_text()
    with pytest.raises(ConfigError) as error:
        launch("o2", seed=1)
    files = (str(tmp_path / folder / "exp.yaml") for folder in ("o1", "o2"))
    words = (*files, "--name OTHER", "--name exp")
    assert all(word in str(error.value) for word in words)
    assert (GridFolder(storage, "exp").path / "preset.yaml").read_text() == before


def test_named_grid_is_taken_as_named(launch):
    launch("o1")
    assert launch("o2", seed=1, name="other").name == "other"
    assert launch("o2", seed=1, name="exp").name == "exp"


def test_file_that_was_sent_to_a_cluster_has_its_place_at_home(launch, monkeypatch, tmp_path):
    monkeypatch.setenv("FEDGRID_SOURCE", "/home/me/exp.yaml")
    launch("job1")
    assert launch("job2", seed=1).source == "/home/me/exp.yaml"


def test_file_does_not_take_the_name_of_a_preset(launch):
    with pytest.raises(ConfigError, match="the preset paper: .*--name"):
        launch("o1", file="paper.yaml")
    assert launch("o1", name="my-paper", file="paper.yaml").name == "my-paper"


def test_file_does_not_take_the_name_of_runs_by_options(launch, storage, tmp_path):
    grid = load_grid(None, {"clients": 3}, [], tmp_path)
    GridFolder(storage, grid.name).check_source(grid)
    GridFolder(storage, grid.name).keep(grid.runs, grid.text, grid.source)
    other = load_grid(None, {"clients": 4}, [], tmp_path)
    GridFolder(storage, other.name).check_source(other)
    with pytest.raises(ConfigError, match="comes from options"):
        launch("o1", file="runs.yaml")


@pytest.fixture
def storage(tmp_path):
    return Storage.from_text(tmp_path)


def runs(*seeds):
    return tuple(
        complete_config({"seed": seed, "algorithm": "fedavg"}, Path("no-data-needed")) for seed in seeds
    )


def text_of(folder, name):
    return (folder.path / name).read_text()


def test_grid_folder_has_the_preset_and_a_line_for_each_run(storage):
    folder = GridFolder(storage, "paper")
    folder.keep(runs(0, 1), "seed: [0, 1]\n", "here/paper.yaml")
    assert folder.path == storage.root / "grids" / "paper"
    assert sorted(path.name for path in folder.path.iterdir()) == ["preset.yaml", "runs.jsonl"]
    assert text_of(folder, "preset.yaml") == "seed: [0, 1]\n"
    head, *lines = text_of(folder, "runs.jsonl").splitlines()
    assert json.loads(head)["layout"] == LAYOUT
    assert lines == [run.canonical_json() for run in runs(0, 1)]
    assert GridFolder(storage, "paper").read_runs() == runs(0, 1)
    assert GridFolder(storage, "paper").read_definition().source == "here/paper.yaml"


def test_reference_of_a_plugin_is_known_without_the_plugin(storage, tmp_path):
    """A report executes none."""
    path = tmp_path / "mine.py"
    path.write_text(
        ALGORITHM.replace('"own"', '"alone"').replace("FedOptSettings())", "FedOptSettings(), True)")
    )
    folder = GridFolder(storage, "paper")
    active.use_plugins([path])
    folder.keep([complete_config({"algorithm": "alone"}, Path("no-data-needed"))], "")
    active.use_plugins()
    assert not is_reference("alone")
    folder.read_runs()
    assert is_reference("alone")


def test_runs_of_an_earlier_launch_stay_if_they_have_a_folder(storage):
    """Runs 0 and 1 were launched and 0 was started; 2 and 1 are launched now."""
    folder = GridFolder(storage, "paper")
    folder.keep(runs(0, 1), "first")
    RunFolder(storage, runs(0)[0]).open()
    folder.keep(runs(2, 1), "second")
    assert folder.read_runs() == runs(2, 1, 0)
    folder.keep(runs(0), "third")
    assert folder.read_runs() == runs(0)
    assert text_of(folder, "preset.yaml") == "third"


@pytest.mark.parametrize(
    ("asked", "expected"), [(runs(0, 1), True), (runs(1), True), (runs(1, 2), False), ((), True)]
)
def test_a_grid_knows_the_runs_that_it_was_launched_with(storage, asked, expected):
    GridFolder(storage, "paper").keep(runs(0, 1), "")
    assert GridFolder(storage, "paper").is_launched(Grid("paper", asked, "")) is expected
    assert not GridFolder(storage, "other").is_launched(Grid("other", asked, ""))


def test_unknown_grid_names_the_known_ones(storage):
    def refused():
        said = set()
        for use in (GridFolder.read_runs, GridFolder.request_stop):
            with pytest.raises(ConfigError) as error:
                use(GridFolder(storage, "papr"))
            said.add(str(error.value))
        return said

    assert refused() == {
        f"no grid in {storage.root}; if it is in another folder, name that with --storage; "
        f"`fedgrid run papr --storage {storage.root}` starts one"
    }
    for name in ("paper", "a grid"):
        GridFolder(storage, name).keep(runs(0), "")
    assert refused() == {"unknown grid 'papr'; did you mean 'paper'? known: a grid, paper"}
    assert list_grids(storage) == ["a grid", "paper"]


def refused(folder: GridFolder, *words):
    """Check that every use of a grid is refused in one line that has these words, and changes nothing."""
    before = (folder.path / "runs.jsonl").read_bytes()
    for use in (folder.read_runs, folder.read_definition, lambda: folder.keep(runs(1), "")):
        with pytest.raises(ConfigError) as error:
            use()
        assert all(word in str(error.value) for word in (str(folder.path), *words))
        assert "\n" not in str(error.value)
    assert (folder.path / "runs.jsonl").read_bytes() == before


@pytest.mark.parametrize(("head", "layout"), [(f'"layout": {LAYOUT + 1}', LAYOUT + 1), ('"format": 1', 1)])
def test_grid_of_another_layout_is_refused(storage, head, layout):
    folder = GridFolder(storage, "paper")
    folder.path.mkdir(parents=True)
    (folder.path / "runs.jsonl").write_text(f"{{{head}}}\nnobody knows\n")
    refused(folder, "another fedgrid", f"layout {layout}")


def test_flipped_bit_anywhere_in_the_runs_is_refused(storage):
    """A changed seed would be another run, which seems not to have started."""
    folder = GridFolder(storage, "paper")
    folder.keep(runs(0, 1), "")
    whole = (folder.path / "runs.jsonl").read_bytes()
    for place in range(0, len(whole), 7):
        flipped = bytearray(whole)
        flipped[place] ^= 1
        (folder.path / "runs.jsonl").write_bytes(flipped)
        with pytest.raises(ConfigError):
            folder.read_runs()
    (folder.path / "runs.jsonl").write_bytes(whole[:-20])
    refused(folder, "damaged", "move")


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "a\n", "-r", "x" * 101])
def test_grid_name_must_be_a_plain_file_name(storage, name):
    with pytest.raises(
        ConfigError, match=r"^a grid named '.*': expected letters, digits, spaces and any of"
    ) as error:
        GridFolder(storage, name)
    assert "\n" not in str(error.value)
    assert list(storage.root.iterdir()) == []


def test_stop_request_lasts_until_it_is_withdrawn(storage):
    folder = GridFolder(storage, "paper")
    folder.withdraw_stop()
    assert not folder.is_stop_requested()
    folder.keep(runs(0), "")
    GridFolder(storage, "paper").request_stop()
    assert folder.is_stop_requested()
    assert not GridFolder(storage, "other").is_stop_requested()
    folder.withdraw_stop()
    assert not folder.is_stop_requested()


def test_progress_is_written_and_read(storage):
    folder = GridFolder(storage, "paper")
    assert folder.read_progress() is None
    folder.write_progress({"done": 3, "running": ["a", "b"]})
    assert GridFolder(storage, "paper").read_progress() == {"done": 3, "running": ["a", "b"]}
    (folder.path / "progress.json").write_text("{")
    with pytest.raises(DamagedFile, match="progress.json"):
        folder.read_progress()


def test_grid_at_a_uri_is_visible_to_another_machine(tmp_path, monkeypatch):
    def machine(name):
        monkeypatch.setenv("FEDGRID_CACHE", str(tmp_path / name))
        return Storage.from_text(f"local://{tmp_path / 'bucket'}")

    now = 100.0
    monkeypatch.setattr(grid_folder, "monotonic", lambda: now)
    head = GridFolder(machine("head"), "paper")
    laptop_storage = machine("laptop")
    laptop = GridFolder(laptop_storage, "paper")
    head.keep(runs(0), "seed: 0\n")
    head.write_progress({"done": 1})
    assert not head.is_stop_requested()
    laptop_storage.pull_marks()
    assert laptop.read_runs() == runs(0)
    assert laptop.read_progress() == {"done": 1}
    laptop.request_stop()
    now = 104.9
    assert not head.is_stop_requested(), "it looks every five seconds"
    now = 105.0
    assert head.is_stop_requested()
    head.withdraw_stop()
    laptop_storage.refresh("grids/paper/stop")
    assert not (laptop.path / "stop").exists()
