"""The archive's scores of explanations: what its files say, also of those that we have a copy of."""

import re
from collections import Counter
from itertools import permutations
from statistics import fmean

import numpy as np
import pytest

from fedgrid.engine.federation.errors import DataError, RunError
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.archive import layout
from fedgrid.grids.archive.explanation_records import (
    FILE,
    STATISTICS,
    load_rows,
    read_explanations,
    write_rows,
)
from fedgrid.grids.archive.layout import ALGORITHMS
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.reference import ARCHIVE, FOLDERS, OVERLAPS, read_published_explanations
from tests.helpers.small_archive import replace_text, write_explanations, write_scores

ROWS = [("AB", 0.5, 0.25), ("AA", 0.75, 0.125)]
EXPERIMENTS = {"1A": "members", "1B": "others", "1C": "server"}


def only(archive):
    [found] = layout.find_explanations(archive)
    return found


def test_row_of_a_cluster_has_its_run_distribution_and_statistics(tmp_path):
    write_explanations(tmp_path, "briggs", ROWS)
    one, other = read_explanations(only(tmp_path))
    assert (one["cluster"], other["cluster"]) == ("AB", "AA")
    assert one == {
        **{"dataset": "mnist", "clients": 15, "split": "nonoverlapping-balanced"},
        **{"algorithm": "briggs-as-published", "on": "members", "cluster": "AB"},
        **{f"insertion_{name}": 0.5 for name in STATISTICS},
        **{f"deletion_{name}": 0.25 for name in STATISTICS},
    }


def test_centralised_training_has_epochs_from_1(tmp_path):
    folder = tmp_path / "experiments" / "CIFAR10" / "centralised_test" / "explanations"
    folder.mkdir(parents=True)
    write_scores(folder / "CIFAR10_explanations.csv", "iteration", [("0", 0.5, 0.25), ("10", 0.75, 0.5)])
    rows = read_explanations(only(tmp_path))
    assert [(row["algorithm"], row["dataset"], row["epoch"]) for row in rows] == [
        ("centralised", "cifar10", 1),
        ("centralised", "cifar10", 11),
    ]
    assert "clients" not in rows[0]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ins_p05", "ins_p5", "1: 0 columns 'ins_p05'"),
        ("AA,0.75", "AA,nan", "3: ins_mean 'nan'; expected a number from 0 to 1"),
        ("AA,0.75,", "AA,", "3: 18 values; expected 19"),
    ],
)
def test_malformed_file_is_named_with_its_line(tmp_path, old, new, message):
    path = write_explanations(tmp_path, "sattler", ROWS)
    replace_text(path, int(message[0]), old, new)
    with pytest.raises(DataError, match=re.escape(f"{path}:{message}")):
        read_explanations(only(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "experiment1A/INDE_avg.csv",
        "experiment1A/MNIST/MNIST_nonoverlaping_balanced_15_unheard.csv",
        "experiment1A/MNIST/CIFAR10_nonoverlaping_balanced_15_sattler.csv",
        "experiment2/MNIST/MNIST_nonoverlaping_balanced_15_sattler.csv",
    ],
)
def test_what_is_no_such_file_is_left_out(tmp_path, name):
    path = tmp_path / "explanations" / name
    path.parent.mkdir(parents=True)
    path.touch()
    assert layout.find_explanations(tmp_path) == []


def stored(tmp_path):
    write_explanations(tmp_path, "sattler", ROWS)
    grid = GridFolder(Storage(tmp_path / "runs"), "theirs")
    write_rows(read_explanations(only(tmp_path)), grid)
    return grid


def test_stored_rows_are_read_back_with_nothing_where_they_have_no_value(tmp_path):
    rows = load_rows(stored(tmp_path))
    assert [(row["cluster"], row["deletion_median"], row["epoch"]) for row in rows] == [
        ("AB", 0.25, None),
        ("AA", 0.125, None),
    ]


def test_damaged_file_says_to_import_again(tmp_path):
    grid = stored(tmp_path)
    data = bytearray((grid.path / FILE).read_bytes())
    data[100] ^= 1
    (grid.path / FILE).write_bytes(data)
    with pytest.raises(RunError, match=rf"{FILE} is damaged .*: import the archive again"):
        load_rows(grid)


@pytest.fixture(scope="module")
def theirs():
    """The rows of the part of the archive that we have."""
    if not ARCHIVE.is_dir():
        pytest.skip("NOT CHECKED AGAINST THE AUTHORS' FULL ARCHIVE: shared/reference is missing")
    files = layout.find_explanations(ARCHIVE)
    assert len(files) == 168 + 56 + 2
    return [row for file in files for row in read_explanations(file)]


def cell_of(row):
    return tuple(row[name] for name in ("dataset", "clients", "split", "algorithm", "on"))


def test_authors_models_are_as_many_as_counted(theirs):
    """Section 5 of the facts: a row a cluster, none of others in a run with one cluster."""
    assert Counter((row["dataset"], row.get("clients"), row.get("on")) for row in theirs) == {
        **{("mnist", 15, "members"): 80, ("mnist", 15, "others"): 72, ("mnist", 15, "server"): 80},
        **{("cifar10", 15, "members"): 119, ("cifar10", 15, "others"): 108, ("cifar10", 15, "server"): 119},
        **{("cifar10", 30, "members"): 177, ("cifar10", 30, "others"): 167},
        **{("mnist", None, None): 8, ("cifar10", None, None): 8},
    }


@pytest.mark.parametrize("score", ["insertion", "deletion"])
def test_means_over_clusters_are_the_authors_scores_of_runs(theirs, score):
    """All 224 of MNIST and CIFAR10; 29 scores of others are missing, of runs with one cluster."""
    by_run = {}
    for row in theirs:
        by_run.setdefault(cell_of(row) if "on" in row else None, []).append(row[f"{score}_mean"])
    published = [
        row
        for row in read_published_explanations(level="scenario", metric=score)
        if row["dataset"] in ("MNIST", "CIFAR10")
    ]
    compared = missing = 0
    for row in published:
        algorithm = ALGORITHMS[FOLDERS[row["algorithm"]]]
        scenario = (row["dataset"].lower(), int(row["n"]), f"{OVERLAPS[row['overlap']]}-{row['balance']}")
        values = by_run.get((*scenario, algorithm, EXPERIMENTS[row["experiment"]]), [])
        assert len(values) == int(row["clusters"])
        missing += not values
        if values:
            compared += 1
            assert fmean(values) == pytest.approx(float(row["mean"]), abs=1e-9)
            assert fmean(values) == pytest.approx(float(row["printed_score"] or row["mean"]), abs=1e-9)
    assert (compared, missing) == (195, 29)


@pytest.mark.parametrize("score", ["insertion", "deletion"])
def test_quartiles_over_clusters_are_the_boxes_of_the_paper(theirs, score):
    """Figures 6 and 7: the models of a data set's four 15-client scenarios together."""
    rows = [
        row
        for row in read_published_explanations(level="dataset", metric=score)
        if row["dataset"] in ("MNIST", "CIFAR10") and row["median"]
    ]
    for row in rows:
        algorithm, on = ALGORITHMS[FOLDERS[row["algorithm"]]], EXPERIMENTS[row["experiment"]]
        wanted = (row["dataset"].lower(), 15, algorithm, on)
        values = [
            each[f"{score}_mean"]
            for each in theirs
            if tuple(each.get(key) for key in ("dataset", "clients", "algorithm", "on")) == wanted
        ]
        expected = [float(row[name]) for name in ("q1", "median", "q3")]
        assert np.quantile(values, (0.25, 0.5, 0.75)) == pytest.approx(expected, abs=1e-9)
        if row["printed_score"]:
            # Read off the printed boxes, to one pixel.
            assert expected[1] == pytest.approx(float(row["printed_score"]), abs=0.0018)
    assert len(rows) == 42 - 4


@pytest.mark.parametrize(
    ("dataset", "insertion", "deletion"), [("mnist", 0.469, 0.506), ("cifar10", 0.547, 0.244)]
)
def test_last_epoch_of_a_centralised_training_has_the_authors_scores(theirs, dataset, insertion, deletion):
    last = [row for row in theirs if row["dataset"] == dataset and "epoch" in row][-1]
    found = (last["epoch"], last["insertion_mean"], last["deletion_mean"])
    assert found == pytest.approx((71, insertion, deletion), abs=5e-4)


def test_scores_of_others_are_those_of_the_other_cluster_if_there_are_two(theirs):
    """What experiment 1B measures is the complement's own model: its scores follow the other cluster's."""
    runs = {}
    for row in theirs:
        if "on" in row:
            runs.setdefault(cell_of(row)[:-1], {}).setdefault(row["on"], {})[row["cluster"]] = row
    two = [run for run in runs.values() if len(run["members"]) == 2]
    triples = [
        (run["others"][cluster][score], run["members"][other][score], run["members"][cluster][score])
        for run in two
        for cluster, other in permutations(run["members"])
        for score in ("insertion_mean", "deletion_mean")
    ]
    others_P, other_P, own_P = np.array(triples).T
    assert len(two) == 9
    assert np.corrcoef(others_P, other_P)[0, 1] == pytest.approx(0.9926, abs=5e-5)
    assert np.abs(others_P - other_P).mean() == pytest.approx(0.0166, abs=5e-5)
    assert np.abs(others_P - own_P).mean() == pytest.approx(0.1027, abs=5e-5)
