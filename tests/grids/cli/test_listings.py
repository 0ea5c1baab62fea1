"""`fedgrid data`: who holds which classes. `fedgrid list algorithms`: what settings mean."""

import csv
import json
from itertools import product
from shutil import copytree

import numpy as np
import pytest
from PIL import Image

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.grids.cli.actions.listings import read_subject
from fedgrid.grids.presets.key_docs import list_settings
from fedgrid.grids.presets.preset_files import list_presets
from tests.helpers.command_line import fedgrid


def test_presets_are_listed_with_their_runs_and_subjects():
    rows = json.loads(fedgrid("list", "presets", "--json").out)
    assert [row["name"] for row in rows] == list_presets()
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
    assert read_subject(text) == expected


@pytest.fixture
def folder(tmp_path):
    """Sixteen training images and four test images of each of two classes."""
    for part, count in (("train", 16), ("test", 4)):
        for label, name in enumerate(("ape", "=bee")):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.full((16, 16), 100 * label + number, np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / name / f"{number}.png")
    return tmp_path


def test_classes_of_a_folder_have_their_names(folder):
    """In the table, the figure's data and the csv file, where no spreadsheet takes one for a formula."""
    given = ("data", f"folder:{folder}", "--split", "iid", "--clients", "2")
    shown = fedgrid(*given, "--csv", folder / "held.csv")
    assert (shown.code, "=bee  ape" in shown.out) == (0, True)
    with (folder / "held.csv").open() as file:
        assert next(csv.reader(file)) == ["client_id", "partition", "total_samples", "=bee", "ape"]
    assert json.loads(fedgrid(*given, "--json").out)["classes"] == ["=bee", "ape"]


def test_groups_without_a_client_are_said_and_the_others_have_their_names(folder, tmp_path):
    """`folder` as one group, ada, beside two others: two of the three take part."""
    for part, group in product(("train", "test"), ("ada", "bea", "cem")):
        copytree(folder / part, tmp_path / "grouped" / part / group)
    given = ("--split", "natural", "--clients", "2")
    shown = fedgrid("data", f"folder:{tmp_path / 'grouped'}", *given)
    assert "folder_grouped-2-natural: 2 of 3 groups take part" in shown.err
    assert "take clients: 3" in shown.err
    assert sum(f" {name} " in shown.out for name in ("ada", "bea", "cem")) == 2
    dry = fedgrid("run", "--dataset", f"folder:{tmp_path / 'grouped'}", *given, "--dry-run", "--in-process")
    assert "2 of 3 groups take part" in dry.err


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_setting_of_an_algorithm_has_a_meaning(name):
    assert [row for row in list_settings(ALGORITHMS[name].settings) if not row[3]] == []


def test_choice_without_keys_is_a_setting_too():
    rows = {key: default for key, default, *_ in list_settings(ALGORITHMS["fedavg"].settings)}
    assert rows["aggregate"] == "mean"
