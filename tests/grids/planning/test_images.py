"""What is said of examples that are both trained and tested on, before a run starts."""

import numpy as np
import pytest

from fedgrid.engine.federation.before_training.setup import deal_images
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import load_dataset
from fedgrid.engine.runtime.data.partition_files import add_partition
from fedgrid.grids.planning.images import find_image_notes, find_split_notes, number_repeats
from tests.helpers.command_line import fedgrid


@pytest.fixture
def table(tmp_path):
    """Return a function that writes 40 rows, of which so many are different, and returns what to call it."""

    def write(different, mark=""):
        rows = [f"{row % different},{row % 2},s{row % different}" for row in range(40)]
        (tmp_path / "t.csv").write_text("\n".join(["a,label,subject", *rows]))
        return f"csv:{tmp_path}/t.csv{mark}"

    return write


def notes_on(name, tmp_path, **given):
    config = complete_config({"dataset": name, "clients": 2, "split": "iid", **given}, tmp_path)
    pool, test = pair = add_partition(load_dataset(name, tmp_path), config.split)
    repeats = number_repeats(config.dataset, pool)
    partition = deal_images(config, pair, 2)
    return [
        *[note for note in find_image_notes(name, (pool, test), tmp_path) if "value for value" in note],
        *find_split_notes(config, repeats, pool.subjects, partition),
    ], partition


def test_copies_on_both_sides_are_counted(table, tmp_path):
    """Of 40 rows 20 are copies of the others; with the column `subject` copies stay together."""
    [of_server, of_clients], partition = notes_on(table(20, "#drop=subject"), tmp_path)
    pool, test = load_dataset(table(20, "#drop=subject"), tmp_path)
    held = pool.images[:, 0].tolist()
    copies = sum(value in held for value in test.images[:, 0].tolist())
    assert f"{copies} of 8 examples of the server's test set of csv:t.csv#drop=subject@" in of_server
    trained = {value for held in partition.train_K for value in pool.images[held, 0].tolist()}
    tested = [value for held in partition.test_K for value in pool.images[held, 0].tolist()]
    copies = sum(value in trained for value in tested)
    assert f"{copies} of {len(tested)} examples that clients are tested on are also trained on" in of_clients
    assert notes_on(table(20), tmp_path)[0] == []


def test_without_copies_nothing_is_said(table, tmp_path):
    assert notes_on(table(40, "#drop=subject"), tmp_path)[0] == []
    images = ImageSet(np.zeros((4, 1, 2, 2), np.uint8), np.zeros(4, np.int64))
    assert number_repeats("mnist", images) is None


def test_subjects_that_a_file_cuts_in_two_are_counted(table, tmp_path):
    """The file has an example of each of 16 subjects' two in the training part, and the other in the test."""
    pool, _ = load_dataset(table(20), tmp_path)
    sides = [
        "train" if subject not in pool.subjects[:row] else "test" for row, subject in enumerate(pool.subjects)
    ]
    (tmp_path / "p.csv").write_text(
        "\n".join(["client,part", *(f"{row % 2},{side}" for row, side in enumerate(sides))])
    )
    split = {"kind": "file", "path": f"{tmp_path}/p.csv"}
    notes, _ = notes_on(table(20), tmp_path, split=split)
    assert "16 of 16 subjects are both trained and tested on, as the split's file says" in notes[-1]


def test_the_commands_say_so(table, tmp_path):
    given = ("--clients", "2", "--split", "iid")
    for command in (["data", table(20, "#drop=subject")],
                    ["run", "--dataset", table(20, "#drop=subject"), "--algorithm", "fedavg", "--in-process",
                     "training.rounds=1", "--storage", tmp_path / "S"]):  # fmt: skip
        said = fedgrid(*command, *given).err
        assert "of the server's test set" in said
        assert "examples that clients are tested on" in said
    said = fedgrid(*command, *given, "--dry-run").err
    assert "of the server's test set" in said
    assert "examples that clients are tested on" in said
