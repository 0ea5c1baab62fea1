"""A file says who holds what: ten examples of two classes, two clients."""

import numpy as np
import pytest

from fedgrid.engine.federation.data.partition import assign_rows
from fedgrid.engine.federation.errors import ConfigError
from tests.helpers.partitions import deal_labels

LABELS = np.tile([0, 1], 5)
CLIENTS = ["a", "a", "a", "b", "b", "b", "", "b", "b", "b"]
PARTS = ["train", "train", "test", "train", "test", "test", "", "train", "train", "train"]


def deal(assigned, clients=2, **split):
    return deal_labels(LABELS, "file", clients, of_pool={"assigned": assigned}, **split)


def test_the_files_cut_is_taken():
    groups = ["x" if name == "b" else "y" for name in CLIENTS]
    parts = deal(assign_rows("t.csv", CLIENTS, parts_R=PARTS, groups_R=groups))
    assert [(part.cluster, part.train.tolist(), part.test.tolist()) for part in parts] == [
        (1, [0, 1], [2]),
        (0, [3, 7, 8, 9], [4, 5]),
    ]


def test_a_search_cuts_the_files_training_examples_again():
    parts = deal(assign_rows("t.csv", CLIENTS, parts_R=PARTS), scored_on="validation")
    assert [part.positions.tolist() for part in parts] == [[0, 1], [3, 7, 8, 9]]


def test_without_a_cut_each_client_is_cut_and_shared_examples_are_tests_for_all():
    parts = deal(assign_rows("t.csv", CLIENTS))
    assert [(len(part.train), len(part.test)) for part in parts] == [(2, 1), (4, 2)]
    every = [str(example) for example in range(10)] * 2
    shared = deal(assign_rows("t.csv", ["a"] * 10 + ["b"] * 10, examples_R=every))
    assert shared[0].test.tolist() == shared[1].test.tolist()


CUT_OF_FOUR = {"examples_R": list("1223"), "parts_R": ["train", "test"] * 2}


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ({"assigned": None}, "path", "name one, as in split.path="),
        ({"clients": 3}, "clients", "clients = 3: t.csv has 2; leave it out"),
        (
            {"assigned": assign_rows("t.csv", ["a", "b"])},
            "path",
            "t.csv has 2 rows, but digits has 10 examples",
        ),
        (
            {"assigned": assign_rows("t.csv", ["a", "b"], examples_R=["1", "10"])},
            "path",
            "t.csv has an example 10, but digits has 10 examples to draw from, 0 to 9",
        ),
        ({"test_share": 0.5}, "test_share", "t.csv says what clients are tested on"),
        (
            {"assigned": assign_rows("t.csv", ["a", "a", "b", "b"], **CUT_OF_FOUR)},
            "test_leakage",
            "t.csv has 1 examples that a client is tested on and another one trains on",
        ),
        ({"tested_on": "official"}, "tested_on", "t.csv says what clients are tested on"),
    ],
)
def test_files_that_do_not_fit_are_refused(given, key, said):
    with pytest.raises(ConfigError) as refused:
        deal(**{"assigned": assign_rows("t.csv", CLIENTS, parts_R=PARTS), **given})
    assert said in str(refused.value)
    assert refused.value.key[-1] == key


def test_a_client_without_a_test_example_is_named():
    parts = ["train" if part else "" for part in PARTS]
    with pytest.raises(ConfigError, match="client 0 .* 3 training and 0 test .*; leave it out of the file"):
        deal(assign_rows("t.csv", CLIENTS, parts_R=parts))
