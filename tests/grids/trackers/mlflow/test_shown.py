"""What a run shows in MLflow beside its metrics: name, times, data set, source, description."""

import json
import sys
from pathlib import Path

from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.partition.scenarios import PUBLISHED_SPLITS
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.grids.following.session import LaunchEnd
from fedgrid.grids.trackers.mlflow.descriptions import KIND_TAG, describe_ended_run
from fedgrid.grids.trackers.mlflow.view import VIEW_TAG
from fedgrid.grids.trackers.names import build_command_tags, format_run_name
from fedgrid.manifest import CODE, ProvenancePart
from tests.helpers.logged_runs import ROUNDS, STARTED_MS, build_config, new_session, unpack_tag, write_run
from tests.helpers.manifests import list_files

CONFIG = build_config(0)
NAME = "fedavg s0 NB, digits-4"
DIGEST = "0123456789abcdef" * 4


def test_run_has_its_own_times_its_data_set_and_a_description(storage, store, session):
    """Four rounds of half a second, the first of which began at STARTED_MS."""
    write_run(storage, CONFIG, ROUNDS)
    folder = build_folder_path(storage, CONFIG)
    parts = (ProvenancePart(1, {CODE: "a digest", "images": DIGEST}),)
    list_files(folder, made_with=parts)
    session.update_run(CONFIG)
    run = store.runs[NAME]
    assert (run.info.start_time, run.info.end_time) == (STARTED_MS, STARTED_MS + 2000)
    points = store.client.get_metric_history(run.info.run_id, "clustering/ari")
    assert [point.timestamp for point in points] == [STARTED_MS + 500 * number for number in (1, 2, 3, 4)]
    [given] = run.inputs.dataset_inputs
    assert (given.dataset.name, given.dataset.digest) == ("digits", DIGEST[:36])
    assert json.loads(given.dataset.profile)["clients"] == 4
    assert [(tag.key, tag.value) for tag in given.tags] == [("mlflow.data.context", "training")]
    note = run.data.tags["mlflow.note.content"]
    assert note.startswith(
        "**BNC** (`fedavg`) on digits, 4 clients, nonoverlapping-balanced; seed 0, 4 rounds"
    )


def test_description_shows_the_figures_of_a_run(storage):
    write_run(storage, CONFIG, ROUNDS - 1)
    note = describe_ended_run(CONFIG, [Path("run.png")], "abc")
    assert "![run](get-artifact?path=figures%2Frun.png&run_uuid=abc)" in note


def test_description_that_the_user_wrote_stays(storage, store, session):
    write_run(storage, CONFIG, 2)
    session.update_run(CONFIG)
    store.client.set_tag(store.runs[NAME].info.run_id, "mlflow.note.content", "mine")
    write_run(storage, CONFIG, ROUNDS)
    session.update_run(CONFIG)
    assert store.runs[NAME].data.tags["mlflow.note.content"] == "mine"


def test_experiment_has_the_view_a_description_and_the_kind_of_its_pages(storage, store, session):
    session.close_grid(LaunchEnd("FINISHED"))
    experiment = store.client.get_experiment_by_name("mine")
    assert unpack_tag(experiment.tags[VIEW_TAG])["groupBy"]
    assert (
        f"#/experiments/{experiment.experiment_id}/runs?viewStateShareKey="
        in (experiment.tags["mlflow.note.content"])
    )
    assert experiment.tags[KIND_TAG] == "custom_model_development"
    store.client.set_experiment_tag(experiment.experiment_id, "mlflow.note.content", "mine")
    new_session(storage).close_grid(LaunchEnd("FINISHED"))
    assert store.client.get_experiment_by_name("mine").tags["mlflow.note.content"] == "mine"


def test_names_of_runs_that_differ_in_the_split_alone_differ_in_what_lists_show():
    """MLflow's lists show 20 characters."""
    for algorithm in ("fedavg", "ocfl-meanshift"):
        runs = [
            complete_config({"algorithm": algorithm, "split": kind}, Path("unused"))
            for kind in PUBLISHED_SPLITS
        ]
        assert len({format_run_name(run)[:20] for run in runs}) == len(PUBLISHED_SPLITS)


def test_initials_tell_all_splits_apart():
    splits = [CONFIG.split.model_copy(update={"kind": kind}) for kind in KINDS]
    assert len({format_run_name(CONFIG.model_copy(update={"split": split})) for split in splits}) == len(
        KINDS
    )


def test_axes_of_one_last_word_keep_the_whole_key_in_the_name():
    name = format_run_name(build_config(3), ["training.local_epochs", "algorithm.local_epochs"])
    assert name.startswith("fedavg s3 NB, training.local_epochs ")


def test_source_is_the_command_without_options(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/opt/bin/fedgrid", "retry", "mine", "--storage", "/data/runs"])
    tags = build_command_tags("mine")
    assert tags["mlflow.source.name"] == "fedgrid retry mine"
    assert tags["mlflow.project.entryPoint"] == "retry"
    assert tags["command"] == "fedgrid retry mine --storage /data/runs"
