"""Accuracy by each paper's definition: the same run has another number in every paper."""

import pytest

from fedgrid.tracking.tables.personalisation import build_definitions_table
from tests.helpers.studies import TRUTH_K, make_result, make_run, make_study

NAN = float("nan")
SIX = [TRUTH_K] * 6


def study(**curves):
    return make_study([make_result(make_run("FLIS-DC"), SIX, curves=curves)])


def values(table):
    return {(c.group, c.name): cell.value for c, cell in zip(table.columns, table.rows[0].cells, strict=True)}


def test_each_paper_has_its_own_number_of_one_run():
    """Means of the last 5: (.2 + .3 + .4 + .5 + .6) / 5; the run has 6 rounds, so the last 20 are all 6."""
    asked = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    curves = {
        "personalised_accuracy": [0.0] * 5 + [0.8],
        "last_local_accuracy": [0.0] * 5 + [0.9],
        "asked_accuracy": asked,
        "generalised_accuracy": [0.0] * 5 + [0.7],
        "global_accuracy": [0.0] * 5 + [0.65],
        "global_own_accuracy": [0.0] * 5 + [0.55],
    }
    assert values(build_definitions_table(study(**curves))) == pytest.approx(
        {
            ("OCFL", "last round"): 0.8,
            ("FLIS", "last local model"): 0.9,
            ("Prigent", "asked, last 5"): 0.4,
            ("Prigent", "asked, last 20"): 0.35,
            ("Bettinelli", "communities"): 0.7,
            ("Bettinelli", "global model"): 0.65,
            ("Bettinelli", "global, own images"): 0.55,
        }
    )


def test_the_mean_of_the_last_rounds_leaves_out_rounds_without_a_test():
    """With a test in every third round, the last 5 have rounds 3 and 6: (.3 + .6) / 2."""
    found = values(build_definitions_table(study(asked_accuracy=[NAN, NAN, 0.3, NAN, NAN, 0.6])))
    assert found["Prigent", "asked, last 5"] == pytest.approx(0.45)


def test_a_run_whose_last_rounds_have_no_test_has_its_last_one():
    found = values(build_definitions_table(study(asked_accuracy=[0.3, NAN, NAN, NAN, NAN, NAN])))
    assert found["Prigent", "asked, last 5"] == pytest.approx(0.3)


def test_definitions_that_no_run_recorded_are_left_out():
    table = build_definitions_table(study(personalised_accuracy=[0.5] * 6))
    assert [(column.group, column.name) for column in table.columns] == [("OCFL", "last round")]
