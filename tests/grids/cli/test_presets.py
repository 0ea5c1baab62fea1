"""`fedgrid presets` as typed, and what a preset's first comment says it is."""

import json

import pytest

from fedgrid.grids.cli.actions.presets import subject
from fedgrid.grids.presets.load import preset_names
from tests.helpers.command_line import fedgrid


def test_presets_are_listed_with_their_runs_and_subjects():
    rows = json.loads(fedgrid("presets", "--json").out)
    assert [row["name"] for row in rows] == preset_names()
    known = {row["name"]: row for row in rows}
    assert known["flis-digits"] == {
        "name": "flis-digits",
        "runs": 33,
        "what": "The shape of `flis` on scikit-learn's digits",
    }
    assert all(row["what"] and row["runs"] for row in rows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One grid: 7 runs.\ndataset: digits", "One grid"),
        ("# A subject\n# of two lines (x: y): more.\nkey: value", "A subject of two lines (x"),
        ("dataset: digits", ""),
    ],
)
def test_the_subject_of_a_preset_is_its_first_comment_up_to_the_colon(text, expected):
    assert subject(text) == expected
