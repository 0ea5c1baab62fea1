"""One run of the authors' archive: its files are read into our columns, and malformed ones are refused."""

import math
import re

import pytest

from fedgrid.engine.federation.errors import DataError
from fedgrid.grids.archive import archived_run, layout
from fedgrid.record_columns import build_schemas
from tests.helpers.small_archive import (
    METRICS,
    SCENARIO,
    find_results,
    replace_text,
    truncate_file,
    write_blueprint,
    write_csv,
    write_metrics,
    write_run,
)

MAPPING, TEMPERATURE = "cluster_id_mapping.csv", "clusters_temperature.csv"


@pytest.fixture
def archive(tmp_path):
    """An archive of one run, with all of its files."""
    write_metrics(write_run(tmp_path, "HDBSCAN"))
    write_blueprint(tmp_path)
    return tmp_path


def read(archive, *, published_truth=False):
    (found,) = layout.find_runs(archive)
    return archived_run.read_run(found, published_truth=published_truth)


def cells(run):
    """All that was read, as text: NaN is not equal to itself."""
    return repr((run.rounds.to_pylist(), run.clients.to_pylist()))


def client_row(run, number, client):
    (row,) = (row for row in run.clients.to_pylist() if (row["round"], row["client"]) == (number, client))
    return row


def test_archived_rounds_count_from_1_and_temperature_ends_at_the_clustering(archive):
    run = read(archive)
    assert run.rounds.schema == build_schemas()["rounds"]
    assert [
        [row[name] for name in ("round", "temperature", "clusters", "clustered")]
        for row in run.rounds.to_pylist()
    ] == [[1, 0.5, 1, False], [2, 0.625, 3, True], [3, None, 3, False]]
    assert run.absent == ()
    unknown = ("bytes_down", "bytes_up", "excluded", "warnings", "mean_norm", "max_norm")
    assert {value for name in unknown for value in run.rounds[name].to_pylist()} == {None}


def test_clusters_are_numbered_in_the_order_of_their_names(archive):
    """Names A, then AB, AA, AC for clients 0-4, 5-9 and 10-14, the hidden groups."""
    run = read(archive)
    assert run.clients["round"].to_pylist() == [1] * 15 + [2] * 15 + [3] * 15
    assert run.clients["client"].to_pylist() == 3 * list(range(15))
    assert run.clients["cluster"].to_pylist() == [0] * 15 + 2 * ([1] * 5 + [2] * 5 + [3] * 5)
    assert run.clients["true_cluster"].to_pylist() == 3 * ([0] * 5 + [1] * 5 + [2] * 5)


def test_measurements_are_renamed_whatever_the_order_of_rows(archive):
    """Client 6 is of the second group, with classes 4, 5 and 6: mean recall (0 + 1 + 2) / 3 / 16.

    On the server's test set it is (0 + ... + 9) / 10 / 16, and F1 over the union of classes is that over the
    server's. Round 2 is the archive's 1: losses 1 / 2 and 2 + 1.
    """
    run = read(archive)
    assert run.clients.schema == build_schemas()["clients"]
    own = {"loss": 3.0, "accuracy": 6 / 16, "f1_union": 6 / 32, "f1": None, "balanced_accuracy": 1 / 16}
    server = own | {"f1": 6 / 32, "balanced_accuracy": 4.5 / 16}
    expected = {
        **{"round": 2, "client": 6, "cluster": 2, "true_cluster": 1},
        **dict.fromkeys(("part", "placed", "excluded", "update_norm")),
        **{"train_images": 3 * 7, "test_images": 3 * 2, "train_loss": 0.5, "train_accuracy": 6 / 16},
        **{f"local_own_{name}": value for name, value in own.items()},
        **{f"local_server_{name}": value for name, value in server.items()},
        **{f"personalised_{name}": value for name, value in own.items()},
        **dict.fromkeys(f"generalised_{name}" for name in (*own, "recall")),
    }
    row = client_row(run, 2, 6)
    recall = {test: row.pop(f"{test}_recall") for test in ("local_own", "local_server", "personalised")}
    assert row == pytest.approx(expected)
    assert recall["local_server"] == [index / 16 for index in range(10)]
    for test in ("local_own", "personalised"):
        assert recall[test][4:7] == [0, 1 / 16, 2 / 16]
        assert all(math.isnan(recall[test][label]) for label in (0, 1, 2, 3, 7, 8, 9))


@pytest.mark.parametrize("name", ["training_metrics", *METRICS])
def test_absent_file_is_reported_and_its_columns_are_null(archive, name):
    (find_results(archive, "HDBSCAN") / f"{name}.csv").unlink()
    run = read(archive)
    prefixes = dict(zip(METRICS, ("local_own_", "local_server_", "personalised_"), strict=True))
    columns = [
        column for column in run.clients.column_names if column.startswith(prefixes.get(name, "train_l"))
    ]
    assert run.absent == (f"{name}.csv",)
    assert [run.clients[column].null_count for column in columns] == [45] * len(columns)
    assert sum(run.clients[f"{prefix}loss"].null_count == 0 for prefix in ("train_", *prefixes.values())) == 3


def test_only_the_mapping_is_required(tmp_path):
    folder = write_run(tmp_path, "HDBSCAN")
    (folder / TEMPERATURE).unlink()
    run = read(tmp_path)
    names = ("before_update_metrics", "after_update_generalizability", "after_update_metrics")
    assert run.absent == (
        *("training_metrics.csv", *(f"{name}.csv" for name in names)),
        *(TEMPERATURE, "dataset blueprint"),
    )
    assert run.rounds["temperature"].null_count == 3
    (folder / MAPPING).unlink()
    with pytest.raises(
        DataError, match=r"cluster_id_mapping.csv is missing; expected one in each run's folder"
    ):
        read(tmp_path)


def test_index_column_without_a_title_is_skipped(archive):
    path = find_results(archive, "HDBSCAN") / MAPPING
    before = cells(read(archive))
    for line in (2, 3, 4):
        replace_text(path, line, "A", f"{line - 2},A")
    assert cells(read(archive)) == before


def test_renamed_cluster_is_a_new_one(tmp_path):
    """Table 2 counts it: the last change is in round 3, in which all get the name AA."""
    folder = write_run(tmp_path, "briggs")
    write_csv(
        folder / MAPPING, [[str(client) for client in range(15)], *(["A"] * 15, ["A"] * 15, ["AA"] * 15)]
    )
    run = read(tmp_path)
    assert run.rounds["clusters"].to_pylist() == [1, 1, 1]
    assert run.rounds["clustered"].to_pylist() == [False, False, True]
    assert run.clients["cluster"].to_pylist() == [0] * 30 + [1] * 15


MALFORMED = {
    "a column is missing": (
        "after_update_metrics.csv:1",
        ("f1score", "F1"),
        "0 columns 'f1score'; expected one each of epoch, node_id, test_loss, accuracy, f1score",
    ),
    "a row is short": ("training_metrics.csv:7", (",1.0,", ","), "5 values; expected 6"),
    "no number": ("after_update_metrics.csv:3", ("0.8125", "high"), "accuracy 'high'; expected a number"),
    "no share": ("after_update_metrics.csv:3", ("0.8125", "1.5"), "expected a number from 0 to 1"),
    "not a number": ("after_update_metrics.csv:3", ("0.8125", "nan"), "expected a number from 0"),
    "an unknown client": (
        "training_metrics.csv:2",
        ("0,14,", "0,15,"),
        "node_id 15; expected one row for each",
    ),
    "a round too many": ("training_metrics.csv:46", ("2,0,", "3,0,"), "iteration 3, node_id 0; expected one"),
    "no whole number": ("training_metrics.csv:46", ("2,0,", "2.0,0,"), "'2.0'; expected a whole number"),
    "5,000 digits": (
        "training_metrics.csv:46",
        ("2,0,", f"{'9' * 5000},0,"),
        f"'{'9' * 60}'; expected a whole",
    ),
    "a row twice": ("training_metrics.csv:3", ("0,13,", "0,14,"), "node_id 14; expected one row for each"),
    "a row missing": ("after_update_generalizability.csv:45", None, "the end after 44 rows; expected 45"),
    "a mapping of other clients": (f"{MAPPING}:1", ("14", "15"), "expected the clients 0 to 14"),
    "a mapping without rounds": (f"{MAPPING}:1", None, "no line after the titles; expected one a round"),
    "an empty mapping": (f"{MAPPING}:0", None, "an empty file; expected comma-separated"),
    "temperatures from 1": (f"{TEMPERATURE}:1", ("0,", "1,"), "round 1; expected 0: each round from 0 on"),
    "temperatures that end too soon": (f"{TEMPERATURE}:1", None, "the end after 1 rounds; expected 2, up to"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_file_is_refused_with_its_line(archive, case):
    where, change, message = MALFORMED[case]
    name, line = where.split(":")
    path = find_results(archive, "HDBSCAN") / name
    if change is None:
        truncate_file(path, int(line))
    else:
        replace_text(path, int(line), *change)
    where = re.escape(f"{path}:{max(int(line), 1)}: ")
    with pytest.raises(DataError, match=where + ".*" + re.escape(message)) as error:
        read(archive)
    assert len(str(error.value)) < 1000


def test_bytes_that_are_not_text_are_refused(archive):
    path = find_results(archive, "HDBSCAN") / MAPPING
    path.write_bytes(path.read_bytes().replace(b"AB", b"\xff", 1))
    with pytest.raises(DataError, match=r"cluster_id_mapping.csv cannot be read: .*utf-8"):
        read(archive)


def test_blueprint_with_another_number_of_clients_is_refused(archive):
    path = archive.joinpath("datasets", *SCENARIO, "MNIST_15_dataset_blueprint.csv")
    truncate_file(path, 2 + 2 * 14)
    with pytest.raises(
        DataError, match=re.escape(f"{path}:1: 14 clients and 10 classes; expected 15 and 10")
    ):
        read(archive)
