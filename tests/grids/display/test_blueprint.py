"""Class counts per client in the authors' csv format."""

import csv
import io

import numpy as np
import pytest

from fedgrid.engine.federation.errors import DataError
from fedgrid.grids.display.blueprint import Blueprint, class_count_table, count_classes
from fedgrid.grids.display.plain import PlainConsole
from tests.helpers.reference import REFERENCE

TEXT = """\
client_id,partition,total_samples,0,1,2
orchestrator,central_test_set,3,1,0,2
0,train_set,3,2,1,0
0,test_set,1,0,1,0
1,train_set,1,0,0,1
1,test_set,2,0,0,2
"""


def read_blueprint(text):
    """Return the blueprint of a csv file in the order of ours."""
    header, *rows = csv.reader(text.splitlines())
    counts = [np.array(row[3:], np.int64) for row in rows]
    return Blueprint(np.stack(counts[1::2]), np.stack(counts[2::2]), counts[0], tuple(header[3:]))


def test_blueprint_counts_the_classes_of_a_split():
    held_K = [(np.array([0, 0, 1]), np.array([1])), (np.array([2]), np.array([2, 2]))]
    blueprint = count_classes(held_K, np.array([2, 0, 2]), "012")
    assert blueprint.train_KL.tolist() == [[2, 1, 0], [0, 0, 1]]
    assert blueprint.test_KL.tolist() == [[0, 1, 0], [0, 0, 2]]
    assert blueprint.server_L.tolist() == [1, 0, 2]
    assert blueprint.to_csv() == TEXT


def test_blueprint_that_cannot_be_written_names_its_file(tmp_path):
    read_blueprint(TEXT).write(tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == TEXT.encode()
    with pytest.raises(DataError, match=r"none/x\.csv cannot be written: No such file or directory"):
        read_blueprint(TEXT).write(tmp_path / "none" / "x.csv")


def test_class_names_in_the_header_may_contain_a_comma():
    """FMNIST's and CIFAR10's blueprints title the columns by name."""
    text = TEXT.replace("samples,0,1,2", 'samples,Ankle boot,Bag,"myelo, meta"')
    assert read_blueprint(text).to_csv() == text


def test_blueprints_of_the_authors_are_of_the_same_format():
    files = sorted((REFERENCE / "blueprints").glob("MNIST-*.csv"))
    assert len(files) == 8
    for path in files:
        blueprint = read_blueprint(path.read_text(encoding="utf-8"))
        assert blueprint.server_L.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
        assert len(blueprint.train_KL) == int(path.stem.split("-")[-1])
        assert blueprint.to_csv() == path.read_text(encoding="utf-8")


def test_class_count_table():
    blueprint = Blueprint(
        train_KL=np.array([[3, 0], [0, 4]]),
        test_KL=np.array([[1, 0], [0, 2]]),
        server_L=np.array([5, 6]),
        classes=("ape", "bee"),
    )
    text = io.StringIO()
    PlainConsole(file=text, width=80).print(class_count_table(blueprint, [0, 1]))
    lines = text.getvalue().splitlines()
    assert lines[1].replace("┃", " ").split() == ["client", "group", "set", "images", "ape", "bee"]
    rows = [line.replace("│", " ").split() for line in lines if line.startswith("│")]
    assert rows == [
        ["0", "0", "train", "3", "3", "·"],
        ["test", "1", "1", "·"],
        ["1", "1", "train", "4", "·", "4"],
        ["test", "2", "·", "2"],
        ["server", "test", "11", "5", "6"],
    ]
