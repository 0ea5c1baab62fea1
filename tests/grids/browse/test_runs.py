"""`fedgrid show GRID` as typed: columns, conditions, order, CSV and JSON."""

import csv
import io

import pytest

from fedgrid.engine.runtime.storage.format import unseal_file
from fedgrid.tracking.records import read_records
from tests.grids.browse.conftest import EARLY, LATE, PLAIN, WAITING
from tests.helpers.command_line import fedgrid, strict_json


@pytest.fixture
def runs(browsed):
    def call(*options):
        return fedgrid("show", "mine", "--storage", browsed.root, *options)

    return call


def rows_of(result):
    return strict_json(result.out)["runs"]


def ids(result):
    return [row["run_id"] for row in rows_of(result)]


def lines_of(result):
    """Return the lines of the table, which stands after the page's head."""
    return result.out.split("\n\n")[1].splitlines()


def test_usual_columns_are_what_runs_differ_in_and_their_scores(runs):
    result = runs()
    heading, *lines = lines_of(result)
    assert heading.split()[:4] == ["seed", "algorithm", "variant", "state"]
    assert "ari" in heading.split()
    assert "dataset" not in heading
    assert len(lines) == 4
    assert "round 2" in lines[0]
    assert "not started" in lines[3]


def test_chosen_columns_are_printed_beside_the_names_of_the_runs(runs):
    heading, first, *_ = lines_of(runs("--columns", "ari,clusters"))
    assert heading.split() == ["run", "ari", "clusters"]
    assert "briggs" in first.split()[0]
    assert lines_of(runs("--columns", "run_id,ari"))[0].split() == ["run_id", "ari"]
    assert runs("--columns", "ari", "--csv").out.splitlines()[0] == "ari"


def test_csv_has_the_numbers_of_the_runs_scores(runs, browsed):
    rows = list(csv.DictReader(io.StringIO(runs("--csv", "--columns", "run_id,ari,algorithm.round").out)))
    scores = [
        unseal_file(path) for run in (EARLY, LATE) for path in browsed.root.glob(f"*{run.run_id}/scores.json")
    ]
    assert [float(row["ari"]) for row in rows[:2]] == [one["ari"] for one in scores]
    assert [row["algorithm.round"] for row in rows] == ["2", "3", "", ""]
    assert rows[3]["ari"] == ""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--where", "algorithm=briggs"], [EARLY, LATE]),
        (["--where", "algorithm=briggs", "--where", "algorithm.round=3.0"], [LATE]),
        (["--where", "seed=1,algorithm!=briggs"], [PLAIN]),
        (["--where", "state=not started,finished,seed>=2"], [WAITING]),
        (["--where", "algorithm.round<3"], [EARLY]),
        (["--where", "personalised_accuracy>2"], []),
    ],
)
def test_conditions_select_by_settings_scores_and_state(runs, options, expected):
    assert ids(runs(*options, "--json")) == [run.run_id for run in expected]


def test_condition_that_no_run_meets_names_the_values_of_its_column(runs):
    result = runs("--where", "algorithm.round=high")
    assert (result.code, "no run has algorithm.round=high; its values here: 3, 2" in result.err) == (0, True)


def test_numbers_are_sorted_largest_first_and_runs_without_one_last(runs):
    """Settings that a run lacks count as none, whichever way round."""
    options = ("--sort", "algorithm.round", "--json")
    assert ids(runs(*options))[:2] == [LATE.run_id, EARLY.run_id]
    assert ids(runs(*options, "--reverse")) == [run.run_id for run in (EARLY, LATE, PLAIN, WAITING)]


def test_recorded_number_is_that_of_the_last_round(runs, browsed):
    (folder,) = browsed.root.glob(f"*{PLAIN.run_id}")
    (row,) = rows_of(runs("--columns", "temperature,bytes", "--where", "algorithm=fedavg,seed=1", "--json"))
    records = read_records(folder)
    assert row["temperature"] == records.rounds["temperature"][-1]
    assert row["bytes"] == (records.rounds["bytes_up"] + records.rounds["bytes_down"]).sum()


def test_all_columns_hold_settings_scores_and_times(runs):
    row = rows_of(runs("--columns", "all", "--json"))[0]
    assert {"run", "algorithm.threshold", "ari", "seconds", "folder"} <= set(row)
    assert (row["variant"], row["training.rounds"]) == ("round 2", 3)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--where", "algoritm=fedavg"], "unknown column 'algoritm'; did you mean 'algorithm'?"),
        (["--where", "lr=0.1"], "did you mean 'training.learning_rate'?"),
        (["--sort", "temprature"], "did you mean 'temperature'?"),
        (["--columns", "arri"], "did you mean 'ari'?"),
        (["--sort", "accuracy"], "did you mean 'personalised_accuracy'?"),
        (["--where", "ari"], "expected COLUMN=VALUE"),
        (["--where", "ari>high"], "'high' is not a number"),
        (["--csv", "--json"], "choose one"),
    ],
)
def test_what_cannot_be_selected_is_refused(runs, options, says):
    result = runs(*options)
    assert (result.code, result.out) == (2, "")
    assert says in result.err
