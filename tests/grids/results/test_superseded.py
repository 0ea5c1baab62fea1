"""A grid's definition after launches of edited files, other options and edited plugins."""

import json

import pytest

from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.presets.load import load_grid
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.study import load
from tests.helpers.command_line import fedgrid
from tests.helpers.manifests import list_files
from tests.helpers.plugin_files import ALGORITHM
from tests.helpers.small_grid import NOWHERE

TEXT = """
dataset: digits
split: rotated
clients: 4
algorithm: [fedavg, sattler]
seeds: 0..1
training: {rounds: 2, learning_rate: 0.1}
"""
EDITED = TEXT.replace("0.1", "0.01")


class Study:
    """A file in a folder, and launches of it, of which every run gets a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.storage = Storage.from_text(folder / "runs")

    def launch(self, text, *, name=None, file="mine.yaml", changes=(), **options):
        path = self.folder / file
        path.write_text(text)
        grid = load_grid(str(path), {}, changes, NOWHERE, name=name, **options)
        folder = GridFolder(self.storage, grid.name)
        folder.keep(grid.runs, grid.text, grid.source, grid.requested)
        for run in grid.runs:
            RunFolder(self.storage, run).open()
        return {run.run_id for run in grid.runs}

    def asked(self, name="mine"):
        return {run.run_id for run in GridFolder(self.storage, name).read_runs()}

    def superseded(self, name="mine"):
        return {run.run_id for run in GridFolder(self.storage, name).read_definition().superseded}


@pytest.fixture
def study(tmp_path):
    return Study(tmp_path)


FEW = {"changes": ["training.rounds=1"]}


@pytest.mark.parametrize(
    ("first", "second", "stay"),
    [
        ({}, {"text": EDITED}, 0),
        ({}, {"text": TEXT.replace(", sattler", "")}, 2),
        (FEW, {}, 0),
    ],
    ids=["edited", "an algorithm less", "a first try of few rounds"],
)
def test_what_the_text_no_longer_asks_for_is_superseded(study, first, second, stay):
    before = study.launch(**{"text": TEXT, **first})
    after = study.launch(**{"text": TEXT, **second})
    assert len(before & after) == stay
    assert (study.asked(), study.superseded()) == (after, before - after)


def test_the_first_text_launched_again_asks_for_its_runs_again(study):
    before = study.launch(TEXT)
    after = study.launch(EDITED)
    study.launch(TEXT)
    assert (study.asked(), study.superseded()) == (before, after)


def test_comments_and_order_of_lines_are_no_edit(study):
    study.launch(TEXT, filters=["seed=0"])
    study.launch(f"# Later\n{TEXT}", filters=["seed=1"])
    assert len(study.asked()) == 4


@pytest.mark.parametrize(
    "second",
    [{"filters": ["algorithm=sattler"]}, {"changes": ["seeds+=2"]}, {"seeds": "5"}],
    ids=str,
)
def test_a_launch_of_the_same_text_adds(study, second):
    first = study.launch(TEXT, filters=["seed=0"])
    later = study.launch(TEXT, **second)
    assert (study.asked(), study.superseded()) == (first | later, set())


def test_a_filter_leaves_current_what_the_edited_file_still_asks_for(study):
    """Seed 2 is added, and it alone is run: the others are as they were."""
    first = study.launch(TEXT)
    more = study.launch(TEXT.replace("0..1", "0..2"), filters=["seed=2"])
    assert (study.asked(), study.superseded()) == (first | more, set())


def test_another_file_of_one_name_extends_the_grid_and_an_edit_of_it_replaces_all(study):
    one = study.launch(TEXT, name="both", file="one.yaml")
    flipped = TEXT.replace("rotated", "flipped")
    other = study.launch(flipped, name="both", file="other.yaml")
    assert study.asked("both") == one | other
    after = study.launch(flipped.replace("0.1", "0.01"), name="both", file="other.yaml")
    assert (study.asked("both"), study.superseded("both")) == (after, one | other)


def test_runs_of_a_search_join_and_a_file_extends_them(study):
    grid = load_grid(str(_file(study, TEXT)), {}, [], NOWHERE)
    folder = GridFolder(study.storage, "mine")
    folder.keep(grid.runs, grid.text, "search of mine")
    for run in grid.runs:
        RunFolder(study.storage, run).open()
    after = study.launch(EDITED)
    assert study.asked() == after | {run.run_id for run in grid.runs}


def test_a_file_that_was_moved_asks_for_the_same(study):
    before = study.launch(TEXT)
    study.launch(TEXT, file="moved.yaml", name="mine", filters=["seed=0"])
    assert study.asked() == before
    after = study.launch(EDITED, file="moved.yaml", name="mine")
    assert (study.asked(), study.superseded()) == (after, before)


def test_an_edited_plugin_supersedes_its_runs_alone(study, tmp_path):
    plugin = tmp_path / "mine.py"
    text = TEXT.replace("[fedavg, sattler]", "[fedavg, own]")
    plugin.write_text(ALGORITHM)
    active.use_plugins([plugin])
    before = study.launch(text)
    plugin.write_text(f"{ALGORITHM}\n# edited\n")
    active.use_plugins([plugin])
    after = study.launch(text)
    active.use_plugins()
    assert len(before & after) == 2
    assert (study.asked(), study.superseded()) == (after, before - after)


def test_a_retry_asks_for_nothing_else(study):
    before = study.launch(TEXT)
    folder = GridFolder(study.storage, "mine")
    folder.keep(folder.read_runs(), "", folder.read_definition().source)
    after = study.launch(EDITED)
    assert (study.asked(), study.superseded()) == (after, before)


@pytest.fixture
def edited(study):
    """A grid of two finished runs, and two finished runs that an edit has superseded."""
    text = TEXT.replace("[fedavg, sattler]", "fedavg").replace("rounds: 2", "rounds: 1, local_epochs: 1")
    for each in (text, text.replace("0.1", "0.01")):
        _file(study, each)
        command = ("run", study.folder / "mine.yaml", "--in-process", "--track", "mlflow")
        result = fedgrid(*command, "--storage", study.storage.root, "--yes")
        assert result.code == 0
    assert "2 runs of earlier launches are superseded" in result.out
    return study.storage


@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ({}, 0),
        ({"seeds": "0,1,2"}, 0),
        ({"changes": ["training.rounds=9"]}, 0),
        ({"changes": ["training.rounds=1"]}, 3),
        ({"changes": ["training.rounds=9", "clients=5"]}, 3),
    ],
    ids=str,
)
def test_only_what_neither_repeats_nor_extends_finished_runs_has_a_consequence_for_them(study, options, lost):
    study.launch(TEXT)
    folder = GridFolder(study.storage, "mine")
    for run in folder.read_runs()[:3]:
        list_files(RunFolder(study.storage, run).path, is_finished=True)
    options = {"changes": [], **options}
    grid = load_grid(str(study.folder / "mine.yaml"), {}, data_dir=NOWHERE, **options)
    assert ("3 finished runs of mine" in folder.describe_consequence(grid)) == bool(lost)
    assert bool(folder.describe_consequence(grid)) == bool(lost)


def test_commands_leave_superseded_runs_out_and_prune_deletes_them(edited, study):
    def typed(*arguments):
        return fedgrid(*arguments, "--storage", edited.root)

    line = "2 runs of earlier launches are superseded, and left out"
    status = typed("status", "mine")
    assert "2 runs: 2 done" in status.out
    for out in (status.out, typed("show", "mine").out, load("mine", edited).notes[0]):
        assert line in out
    columns = ("--columns", "training.learning_rate,superseded", "--json")
    shown = [
        json.loads(typed("show", "mine", *columns, *more).out)["runs"] for more in ((), ("--superseded",))
    ]
    assert [[tuple(row.values()) for row in rows] for rows in shown] == [
        [(0.01, False)] * 2,
        [(0.01, False)] * 2 + [(0.1, True)] * 2,
    ]
    assert [run.algorithm for run in load("mine", edited).runs] == ["fedavg"] * 2
    both = load("mine", edited, superseded=True)
    assert [run.algorithm for run in both.runs] == ["fedavg"] * 2 + ["fedavg (superseded)"] * 2

    _file(study, TEXT)
    for option, code in (((), 2), (("--dry-run",), 0)):
        refused = typed("run", study.folder / "mine.yaml", "--in-process", *option)
        assert (refused.code, "2 finished runs of mine" in refused.err) == (code, True)
        assert ("add --yes; or --name OTHER" in refused.err) == (not option)
    refused = typed("delete", "mine", "--superseded")
    assert (refused.code, "add --yes" in refused.err) == (2, True)
    folder = GridFolder(edited, "mine")
    gone, kept = (
        [RunFolder(edited, run).path for run in runs]
        for runs in (folder.read_definition().superseded, folder.read_runs())
    )
    assert all(path.exists() for path in gone)
    pruned = typed("delete", "mine", "--superseded", "--yes")
    assert "Deleted of mine: 2 runs" in pruned.out
    assert "MLflow: 2 runs marked as deleted" in pruned.out
    assert [path.exists() for path in (*gone, *kept)] == [False] * 2 + [True] * 2
    assert "superseded" not in typed("status", "mine").out
    assert "No run of mine is superseded." in typed("delete", "mine", "--superseded", "--yes").out


def _file(study, text):
    path = study.folder / "mine.yaml"
    path.write_text(text)
    return path
