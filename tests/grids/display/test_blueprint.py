"""Class counts per client in the authors' csv format."""

import io
from pathlib import Path

import numpy as np
import pytest

from fedgrid.engine.federation.errors import DataError
from fedgrid.grids.display.blueprint import Blueprint, build_class_count_table, count_classes, read_blueprint
from fedgrid.grids.display.plain_console import PlainConsole
from tests.helpers.reference import REFERENCE

TEXT = """\
client_id,partition,total_samples,0,1,2
orchestrator,central_test_set,3,1,0,2
0,train_set,3,2,1,0
0,test_set,1,0,1,0
1,train_set,1,0,0,1
1,test_set,2,0,0,2
"""


@pytest.fixture
def file(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "blueprint.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_blueprint_counts_the_classes_of_a_split():
    held_K = [(np.array([0, 0, 1]), np.array([1])), (np.array([2]), np.array([2, 2]))]
    blueprint = count_classes(held_K, np.array([2, 0, 2]), "012")
    assert blueprint.train_KL.tolist() == [[2, 1, 0], [0, 0, 1]]
    assert blueprint.test_KL.tolist() == [[0, 1, 0], [0, 0, 2]]
    assert blueprint.server_L.tolist() == [1, 0, 2]
    assert blueprint.format_csv() == TEXT


def test_written_blueprint_is_read_back_exactly(file, tmp_path):
    blueprint = read_blueprint(file(TEXT))
    assert blueprint.train_KL.tolist() == [[2, 1, 0], [0, 0, 1]]
    blueprint.write_csv(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == TEXT.encode()
    header, *rows = TEXT.splitlines()
    assert read_blueprint(file("\n".join([header, *reversed(rows)]))).format_csv() == TEXT


def test_blueprint_that_cannot_be_written_names_its_file(file, tmp_path):
    with pytest.raises(DataError, match=r"none/x\.csv cannot be written: No such file or directory"):
        read_blueprint(file(TEXT)).write_csv(tmp_path / "none" / "x.csv")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("client_id,", "client,"),
        ("0,train_set,3,2,1,0", "0,train_set,3,2,1"),
        ("0,train_set,3,2,1,0", "0,train_set,4,2,1,0"),
        ("0,test_set,1,0,1,0", "0,test_set,1,0,one,0"),
        ("0,test_set,1,0,1,0", "0,test_set,1,-1,2,0"),
        ("1,train_set", "0,train_set"),
        ("1,test_set,2,0,0,2\n", ""),
        ("orchestrator,central_test_set,3,1,0,2\n", ""),
        (TEXT, ""),
    ],
)
def test_malformed_blueprint_is_refused_in_one_line(file, old, new):
    assert old in TEXT
    with pytest.raises(DataError, match=r"blueprint\.csv (is not a|cannot be read as a) blueprint") as caught:
        read_blueprint(file(TEXT.replace(old, new, 1)))
    assert "\n" not in str(caught.value)


def test_blueprints_of_the_authors_round_trip():
    files = sorted((REFERENCE / "blueprints").glob("MNIST-*.csv"))
    assert len(files) == 8
    for path in files:
        blueprint = read_blueprint(path)
        assert blueprint.server_L.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        assert len(blueprint.train_KL) == int(path.stem.split("-")[-1])
        assert blueprint.format_csv() == path.read_text(encoding="utf-8")


def test_class_count_table():
    blueprint = Blueprint(
        train_KL=np.array([[3, 0], [0, 4]]),
        test_KL=np.array([[1, 0], [0, 2]]),
        server_L=np.array([5, 6]),
        classes=("ape", "bee"),
    )
    text = io.StringIO()
    PlainConsole(file=text, width=80).print(build_class_count_table(blueprint, [0, 1], ["ada", "1"]))
    rows = [line.split() for line in text.getvalue().splitlines() if "─" not in line]
    assert rows == [
        ["client", "group", "set", "images", "ape", "bee"],
        ["0", "ada", "train", "3", "3", "·"],
        ["test", "1", "1", "·"],
        ["1", "1", "train", "4", "·", "4"],
        ["test", "2", "·", "2"],
        ["server", "test", "11", "5", "6"],
    ]
