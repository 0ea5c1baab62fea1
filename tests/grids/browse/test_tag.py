"""`fedgrid show RUN --tag --note` as typed: on disk, in `show`, and in MLflow."""

import json
import shutil
from contextlib import nullcontext
from hashlib import sha256

import pytest

from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import find_damage
from fedgrid.grids.trackers.annotations import FILE, MAX_LENGTH, Annotations, read_annotations
from fedgrid.grids.trackers.mlflow.own_store import prepare_store
from fedgrid.grids.trackers.mlflow.store import artifact_root, default_uri
from fedgrid.grids.trackers.names import format_run_name
from fedgrid.sealed_json import LAYOUT, seal_values
from tests.helpers.command_line import fedgrid, new_storage, strict_json
from tests.helpers.finished_runs import mark_finished
from tests.helpers.logged_runs import ROUNDS, Store, build_config, new_session, write_run

pytestmark = pytest.mark.usefixtures("in_mlflow")

FIRST, SECOND, WAITING = (build_config(seed) for seed in range(3))
NOTE = "mlflow.note.content"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two finished runs in the grid `mine`, of which MLflow has the first; a third has not started."""
    root = new_storage(tmp_path_factory.mktemp("made") / "runs")
    for run in (FIRST, SECOND):
        write_run(root, run, ROUNDS)
        (build_folder_path(root, run) / "config.json").write_text(json.dumps(run.written()))
        mark_finished(root, run)
    GridFolder(Storage(root), "mine").keep([FIRST, SECOND, WAITING], "dataset: digits\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedgrid.grids.following.session.open_artifacts", _no_files())
        new_session(root).update_run(FIRST)
    return root


def _no_files():
    return lambda run, drawn: nullcontext([])


@pytest.fixture
def root(made, tmp_path, monkeypatch):
    monkeypatch.setattr("fedgrid.grids.following.session.open_artifacts", _no_files())
    root = shutil.copytree(made, tmp_path / "runs")
    prepare_store(default_uri(root), artifact_root(root))  # It warns that the store was copied.
    return root


@pytest.fixture
def tag(root):
    def call(*arguments, run=FIRST):
        tags, note = arguments, ()
        if "--note" in arguments:
            place = arguments.index("--note")
            tags, note = arguments[:place], arguments[place:]
        options = [word for each in tags for word in ("--tag", each)]
        return fedgrid("show", run.run_id[:6], *options, *note, "--storage", root)

    return call


def logged(root, run=FIRST):
    """Return the tags that MLflow has of a run."""
    return Store(default_uri(root)).runs[format_run_name(run)].data.tags


def digests(folder):
    return {path.name: sha256(path.read_bytes()).digest() for path in folder.iterdir() if path.name != FILE}


def test_note_and_tags_are_kept_beside_the_runs_files_and_shown(tag, root):
    folder = build_folder_path(root, FIRST)
    before = digests(folder)
    result = tag("status=good", "paper=table 3", "--note", "the one with\ntwo lines")
    assert (result.code, result.err) == (0, "")
    assert "Note: the one with\ntwo lines\nTags: status=good, paper=table 3\n" in result.out
    assert read_annotations(folder).tags == {"status": "good", "paper": "table 3"}
    assert digests(folder) == before
    assert find_damage(Storage(root), FIRST) is None
    shown = fedgrid("show", FIRST.run_id, "--storage", root)
    assert "\nNote: the one with\ntwo lines\nTags: status=good, paper=table 3\n" in shown.out
    facts = strict_json(fedgrid("show", FIRST.run_id, "--storage", root, "--json").out)
    assert (facts["note"], facts["tags"]["paper"]) == ("the one with\ntwo lines", "table 3")


def test_tags_are_columns_and_conditions_of_runs(tag, root):
    assert tag("status=good", "--note", "best").code == 0
    options = ("--columns", "run_id,tags.status,note", "--storage", root)
    rows = strict_json(fedgrid("show", "mine", *options, "--json").out)["runs"]
    assert [(row["tags.status"], row["note"]) for row in rows[:2]] == [("good", "best"), (None, None)]
    chosen = fedgrid("show", "mine", "--where", "tags.status=good", *options, "--json")
    assert [row["run_id"] for row in strict_json(chosen.out)["runs"]] == [FIRST.run_id]
    every = strict_json(fedgrid("show", "mine", "--columns", "all", "--storage", root, "--json").out)["runs"]
    assert {"note", "tags.status"} <= every[0].keys()
    assert "unknown tag 'statsu'; did you mean 'status'?" in tag("statsu=").err


def test_each_call_changes_what_it_names(tag, root):
    tag("status=good", "reader=me", "--note", "first")
    tag("status=", "--note", "second")
    assert read_annotations(build_folder_path(root, FIRST)) == Annotations("second", {"reader": "me"})
    tag("--note", "")
    assert read_annotations(build_folder_path(root, FIRST)) == Annotations("", {"reader": "me"})
    tag("reader=")
    assert read_annotations(build_folder_path(root, FIRST)) == Annotations("", {})


def test_mlflow_has_the_tags_of_a_finished_run_and_the_note_above_its_description(tag, root):
    description = logged(root)[NOTE]
    tag("status=good", "reader=me", "--note", "see <b>[this](http://x)</b>")
    found = logged(root)
    assert (found["status"], found["reader"]) == ("good", "me")
    assert found[NOTE] == f"see &lt;b>[this]\\(http://x)&lt;/b>\n\n---\n\n{description}"
    tag("status=", "--note", "")
    found = logged(root)
    assert "status" not in found
    assert (found["reader"], found[NOTE]) == ("me", description)
    tag("reader=")
    assert logged(root).keys().isdisjoint({"reader", "fedgrid.annotated"})


def test_description_that_was_written_in_mlflow_stays(tag, root):
    store = Store(default_uri(root))
    store.client.set_tag(store.runs[format_run_name(FIRST)].info.run_id, NOTE, "typed there")
    tag("status=good", "--note", "typed here")
    assert (logged(root)[NOTE], logged(root)["status"]) == ("typed there", "good")


def test_sync_logs_note_and_tags_to_a_new_store_and_once(tag, root):
    tag("status=good", "--note", "typed here")
    new_storage(root)  # An empty store.
    for added in ("8 rounds of 2 runs", "0 rounds of 0 runs"):
        assert added in fedgrid("sync", "mine", "--storage", root).out
    assert logged(root)["status"] == "good"
    assert logged(root)[NOTE].startswith("typed here\n\n---\n\n**")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("status",), "'status': expected KEY=VALUE"),
        (("training.rounds=5",), "tag 'training.rounds': expected letters, digits, _ and -"),
        (("=good",), "tag ''"),
        (("seed=5",), "tag 'seed': fedgrid sets a tag of this name itself"),
        (("status=a\x1b[31mb",), "tag 'status': expected text on one line"),
        (("--note", "a\x1b[2Jb"), "control characters"),
        (("--note", "x" * (MAX_LENGTH + 1)), f"{MAX_LENGTH + 1:,} characters; at most {MAX_LENGTH:,}"),
        (("status=",), "the run has no tags"),
    ],
)
def test_what_is_no_tag_is_refused_and_nothing_is_written(tag, root, arguments, named):
    result = tag(*arguments)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert named in result.err
    assert not (build_folder_path(root, FIRST) / FILE).exists()


def test_grid_and_run_that_has_not_started_are_refused(tag, root):
    grid = fedgrid("show", "mine", "--tag", "status=good", "--storage", root)
    assert (grid.code, f"`fedgrid show mine --storage {root}`" in grid.err) == (2, True)
    waiting = tag("status=good", run=WAITING)
    assert (waiting.code, "has not started" in waiting.err) == (2, True)
    assert not build_folder_path(root, WAITING).exists()


@pytest.mark.parametrize("command", [("show", FIRST.run_id), ("sync", "mine")])
def test_damaged_file_is_a_warning_and_is_replaced(tag, root, command):
    path = build_folder_path(root, FIRST) / FILE
    path.write_text(seal_values({"note": "a", "tags": {}}).replace("a", "b", 1))
    result = fedgrid(*command, "--storage", root)
    assert result.code == 0
    assert f"warning: {path} is damaged" in result.err
    assert tag("status=good").code == 0
    assert read_annotations(path.parent).tags == {"status": "good"}


def test_file_of_another_layout_is_refused_and_left(tag, root):
    path = build_folder_path(root, FIRST) / FILE
    path.write_text(json.dumps({"note": "", "tags": {}, "layout": LAYOUT + 1}))
    before = path.read_bytes()
    assert "was written by another fedgrid" in tag("status=good").err
    assert path.read_bytes() == before
