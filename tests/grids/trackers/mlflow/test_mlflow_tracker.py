"""Runs in MLflow, one call after the other: named, tagged, whole, and never twice."""

import errno
import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from mlflow.tracking import MlflowClient

from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.leases.storage_id import read_storage_id
from fedgrid.engine.runtime.run.run_folder import RunFolder, build_folder_path
from fedgrid.engine.runtime.storage.format import OtherVersion, unseal_file
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.following.session import LaunchEnd
from fedgrid.grids.trackers.errors import TrackerFailed
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.mlflow.report import log_report
from fedgrid.grids.trackers.mlflow.store import default_uri
from fedgrid.grids.trackers.mlflow.view import TOTALS
from fedgrid.grids.trackers.names import format_run_name, metric_meanings
from fedgrid.grids.trackers.tracker import TrackedGrid, TrackedRun
from fedgrid.sealed_json import LAYOUT, seal_values
from tests.helpers.command_line import new_storage
from tests.helpers.logged_runs import ROUNDS, Store, build_config, new_session, write_run
from tests.helpers.manifests import list_files
from tests.helpers.run_records import write_timings

pytestmark = pytest.mark.usefixtures("own_store")

CONFIG = build_config(0)
MARKED = {"uri": "http://***@head:5000", "rounds": ROUNDS}


def is_logged(folder, config=CONFIG):
    grid = TrackedGrid("mine", Storage(folder.parent))
    return not MlflowTracker.lacks(TrackedRun(config, folder), grid)


def test_run_has_name_tags_and_parameters(storage, store):
    write_run(storage, CONFIG, ROUNDS)
    assert new_session(storage, text="dataset: digits\n").update_run(CONFIG) == ROUNDS
    run, parent = store.runs["fedavg s0 NB, digits-4"], store.runs["mine"]
    assert run.info.status == "FINISHED"
    tags = run.data.tags
    assert tags["fedgrid.run_id"] == CONFIG.run_id
    assert tags["mlflow.parentRunId"] == parent.info.run_id
    axes = ("grid", "dataset", "split", "clients", "algorithm", "seed", "model", "scenario")
    assert [tags[axis] for axis in axes] == [
        *("mine", "digits", "nonoverlapping-balanced", "4", "fedavg", "0", "digitnet"),
        "digits-4-nonoverlapping-balanced",
    ]
    assert tags["commit"]
    assert "torch " in tags["versions"]
    assert run.data.params["training.rounds"] == "4"
    assert (run.data.metrics["clustering/temperature"], run.data.metrics["clustering/ari"]) == (0.1, 1.0)
    assert (run.data.metrics["cost/seconds"], run.data.metrics["cost/peak_memory_mb"]) == (2.0, 400.0)
    assert run.data.metrics["cost/uncached_seconds"] == 2.0
    assert run.data.metrics["cost/rounds_computed"] == ROUNDS
    assert set(run.data.metrics) <= {*metric_meanings(), "round", *TOTALS}
    assert len(metric_meanings()) + 1 == 36
    kept = store.artifacts(format_run_name(CONFIG))
    assert kept == {"config.json", "rounds.parquet", "clients.parquet", "timings.parquet"}
    assert store.artifacts("mine") == {"preset.yaml"}


def test_a_further_axis_of_the_grid_is_a_tag_and_stands_in_the_name_of_a_run(storage, store):
    write_run(storage, CONFIG, ROUNDS)
    axes = ["training.local_epochs", "algorithm.cooldown"]
    new_session(storage, axes=axes).update_run(CONFIG)
    epochs = str(CONFIG.training.local_epochs)
    tags = store.runs[f"fedavg s0 NB, local_epochs {epochs}, digits-4"].data.tags
    assert tags["training.local_epochs"] == epochs
    assert "algorithm.cooldown" not in tags, "fedavg has no such setting"


def test_run_with_cache_hits_has_its_time_without_them(storage, store, session):
    """Four rounds of 3 s, of which it took two, in 0.25 s each."""
    write_run(storage, CONFIG, ROUNDS)
    timings = pa.table(
        {
            "round": [1, 2, 3, 4],
            "seconds": [0.25, 0.25, 3.0, 3.0],
            "peak_memory_mb": [100.0] * 4,
            "reached_clients": [4, 4, 4, 4],
            "trained_clients": [0, 0, 4, 4],
            "uncached_seconds": [3.0] * 4,
        }
    )
    write_timings(build_folder_path(storage, CONFIG), timings.to_pylist())
    session.update_run(CONFIG)
    metrics = store.runs[format_run_name(CONFIG)].data.metrics
    assert [metrics[f"cost/{key}"] for key in ("seconds", "uncached_seconds", "rounds_computed")] == [
        6.5,
        12.0,
        2,
    ]


def test_folder_of_a_run_is_marked_as_logged(storage, store, session, monkeypatch):
    folder = build_folder_path(storage, CONFIG)
    write_run(storage, CONFIG, 2)
    session.update_run(CONFIG)
    assert not is_logged(folder)
    write_run(storage, CONFIG, ROUNDS)
    session.update_run(CONFIG)
    assert unseal_file(folder / "mlflow.json") == {
        "uri": default_uri(storage),
        "mlflow_run_id": store.runs[format_run_name(CONFIG)].info.run_id,
        "rounds": ROUNDS,
    }
    assert is_logged(folder)
    longer = CONFIG.training.model_copy(update={"rounds": ROUNDS + 1})
    assert not is_logged(folder, CONFIG.model_copy(update={"training": longer}))
    (storage / "mlflow.db").unlink()
    assert not is_logged(folder)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://head:5000")
    assert not is_logged(folder)


def test_mark_has_the_address_without_its_password_and_counts_if_it_is_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:secret@head:5000")
    whole = seal_values(MARKED)
    for text in (whole, "", "{}", "\x00", whole.replace("4", "3"), whole[:-9]):
        (tmp_path / "mlflow.json").write_text(text)
        assert is_logged(tmp_path) == (text == whole), text


def test_mark_of_another_layout_is_refused(tmp_path):
    (tmp_path / "mlflow.json").write_text(json.dumps({**MARKED, "layout": LAYOUT + 1}))
    with pytest.raises(OtherVersion, match=r"mlflow\.json was written by another fedgrid"):
        is_logged(tmp_path)


def test_a_gap_in_the_records_is_refused(storage, session, monkeypatch):
    write_run(storage, CONFIG, ROUNDS)
    monkeypatch.setattr("fedgrid.grids.following.session.read_rounds_after", lambda *_: [(2, {}, 1)])
    with pytest.raises(TrackerFailed, match="round 1 is missing before round 2"):
        session.update_run(CONFIG)


def test_run_that_resumes_before_the_last_logged_round_is_not_logged_twice(storage, store, session):
    """Its driver was killed, and round 3's state was damaged: rounds 2 and 3 come again."""
    write_run(storage, CONFIG, 3)
    session.update_run(CONFIG)
    successor, logged = new_session(storage), []
    for number in (1, 2, 3, 4, 4):
        write_run(storage, CONFIG, number)
        logged.append(successor.update_run(CONFIG))
    assert logged == [0, 0, 0, 1, 0]
    assert store.steps(CONFIG) == store.steps(CONFIG, "round") == [1, 2, 3, 4]


def test_failed_run_has_its_rounds_and_is_continued_by_a_retry(storage, store, session):
    session.update_run(CONFIG, "FAILED")
    assert (store.status(CONFIG), store.runs[format_run_name(CONFIG)].data.metrics) == ("FAILED", {})
    write_run(storage, CONFIG, 2)
    session.update_run(CONFIG, "FAILED")
    assert (store.status(CONFIG), store.steps(CONFIG)) == ("FAILED", [1, 2])
    assert not is_logged(build_folder_path(storage, CONFIG))
    write_run(storage, CONFIG, 3)
    session.update_run(CONFIG)
    assert store.status(CONFIG) == "RUNNING"
    write_run(storage, CONFIG, ROUNDS)
    session.update_run(CONFIG)
    assert (store.status(CONFIG), store.steps(CONFIG)) == ("FINISHED", [1, 2, 3, 4])


def test_run_killed_after_its_last_round_is_not_marked_as_logged(storage, store, session):
    write_run(storage, CONFIG, ROUNDS)
    list_files(build_folder_path(storage, CONFIG), is_finished=False)
    session.update_run(CONFIG, "KILLED")
    assert not is_logged(build_folder_path(storage, CONFIG))
    list_files(build_folder_path(storage, CONFIG), is_finished=True)
    session.update_run(CONFIG)
    assert is_logged(build_folder_path(storage, CONFIG))


def test_run_that_has_stopped_early_is_finished(storage, store, session):
    given = {"clients": 4, "training": {"rounds": ROUNDS, "stop_after": 1}, "algorithm": "fedavg"}
    run = complete_config({**given, "split": {"scored_on": "validation"}}, Path("unused"))
    write_run(storage, run, 3)
    (build_folder_path(storage, run) / "scores.json").write_text("{}\n")
    list_files(build_folder_path(storage, run), is_finished=True)
    assert session.update_run(run) == 3
    assert store.runs[format_run_name(run)].info.status == "FINISHED"


def test_summary_and_counts_are_logged_to_the_run_of_the_grid(storage, store, session):
    (storage / "table.txt").write_text("a table")
    session.close_grid(
        LaunchEnd("FINISHED", [storage / "table.txt"], {"grid/runs_done": 3, "grid/runs_failed": 1})
    )
    parent = store.runs["mine"]
    assert parent.data.metrics == {"grid/runs_done": 3, "grid/runs_failed": 1}
    assert (parent.info.status, store.artifacts("mine")) == ("FINISHED", {"table.txt"})


def test_report_that_another_user_has_logged_is_replaced(storage, session, monkeypatch):
    """In a storage of a group files may be replaced, but only their owner may set their times."""
    report = storage / "report"
    (report / "tables").mkdir(parents=True)
    (report / "tables" / "a.md").write_text("old")
    (report / "index.html").write_text("page")
    session.close_grid(LaunchEnd("FINISHED"))
    assert log_report("mine", Storage(storage), report)
    [kept] = storage.glob("mlartifacts/*/artifacts/report")
    others = set(kept.rglob("*"))
    own = shutil.copystat

    def copystat(source, target, **options):
        if Path(target) in others:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        own(source, target, **options)

    monkeypatch.setattr(shutil, "copystat", copystat)
    (report / "tables" / "a.md").write_text("new")
    assert log_report("mine", Storage(storage), report)
    assert (kept / "tables" / "a.md").read_text() == "new"
    assert (kept / "index.html").read_text() == "page"


def test_report_goes_into_a_store_that_the_user_named(storage, tmp_path, monkeypatch):
    """Through MLflow; into the storage's own the files are copied."""
    uri = default_uri(tmp_path / "elsewhere")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    (report := tmp_path / "report").mkdir()
    (report / "index.html").write_text("page")
    assert log_report("mine", Storage(storage), report) is None
    new_session(storage).close_grid(LaunchEnd("FINISHED"))
    assert log_report("mine", Storage(storage), report)
    assert Store(uri).artifacts("mine", "report") == {"report/index.html"}


def test_deleted_run_becomes_a_new_mlflow_run(storage, store, session):
    write_run(storage, CONFIG, ROUNDS)
    session.update_run(CONFIG)
    before = store.runs[format_run_name(CONFIG)].info.run_id
    session.forget_run(CONFIG)
    assert format_run_name(CONFIG) not in store.runs
    assert not is_logged(build_folder_path(storage, CONFIG))
    session.update_run(CONFIG)
    assert store.runs[format_run_name(CONFIG)].info.run_id != before


def test_two_storages_of_one_store_do_not_share_runs(tmp_path, monkeypatch):
    """Both have the same run. Each logs its own rounds, under a parent of its own."""
    here, there = new_storage(tmp_path / "a"), tmp_path / "b"
    uri = default_uri(here)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for storage, rounds in ((here, 3), (there, ROUNDS)):
        write_run(storage, CONFIG, rounds)
        new_session(storage).update_run(CONFIG)
    client = MlflowClient(tracking_uri=uri)
    [experiment] = [found for found in client.search_experiments() if found.name == "mine"]
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(run.info.run_name for run in runs) == [
        format_run_name(CONFIG),
        format_run_name(CONFIG),
        "mine",
        "mine",
    ]
    found = {
        run.data.tags["fedgrid.storage_id"]: len(client.get_metric_history(run.info.run_id, "round"))
        for run in runs
        if run.info.run_name == format_run_name(CONFIG)
    }
    assert found == {read_storage_id(here): 3, read_storage_id(there): ROUNDS}


def test_moved_storage_goes_on_with_its_runs(tmp_path, monkeypatch):
    here, there = new_storage(tmp_path / "a"), tmp_path / "b"
    uri = default_uri(here)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    write_run(here, CONFIG, 2)
    new_session(here).update_run(CONFIG)
    shutil.copytree(here, there, ignore=shutil.ignore_patterns("mlflow.db"))
    write_run(there, CONFIG, ROUNDS)
    assert new_session(there).update_run(CONFIG) == ROUNDS - 2
    assert Store(uri).steps(CONFIG) == [1, 2, 3, 4]


@pytest.mark.parametrize("copied", [shutil.copy2, os.link], ids=["files", "links"])
def test_work_on_a_copy_of_a_storage_leaves_the_original_alone(storage, session, tmp_path, capsys, copied):
    """A copy by hard links (`cp -al`) too."""

    def files():
        return {path: path.read_bytes() for path in storage.rglob("*") if path.is_file()}

    write_run(storage, CONFIG, ROUNDS)
    session.update_run(CONFIG)
    before, copy = files(), shutil.copytree(storage, tmp_path / "copy", copy_function=copied)
    # Another run: MLflow remembers addresses by run as long as a process lives.
    write_run(copy, build_config(1), ROUNDS)
    new_session(copy).update_run(build_config(1))
    RunFolder(Storage(copy), CONFIG).log("continues")
    assert files() == before
    assert len(list(copy.glob("mlartifacts/*/artifacts/config.json"))) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "artifacts of 2 runs" in line and str(copy) in line] == lines


def test_a_report_makes_no_store_where_nothing_is_tracked(tmp_path):
    assert log_report("mine", Storage(tmp_path), tmp_path) is None
    assert list(tmp_path.iterdir()) == []
