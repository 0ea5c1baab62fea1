"""Who holds what, from rows of texts."""

import pytest

from fedgrid.engine.federation.data.names import sort_names
from fedgrid.engine.federation.data.partition import assign_rows
from fedgrid.engine.federation.errors import DataError


def test_clients_and_groups_are_numbered_in_order_and_an_empty_client_is_nobody():
    """Numbers ascend as numbers: 9 comes before 10. The third example is nobody's."""
    assigned = assign_rows("t.csv", ["10", "9", "", "10"], groups_R=["b", "a", "", "b"])
    assert assigned.client_names == ("9", "10")
    assert [held.tolist() for held in assigned.held_K] == [[1], [0, 3]]
    assert (assigned.group_K, assigned.group_names) == ((0, 1), ("a", "b"))
    assert (assigned.num_rows, assigned.has_shared_examples, assigned.is_cut) == (4, False, False)


def test_rows_that_name_their_example_may_share_it_and_come_in_any_order():
    assigned = assign_rows(
        "t.csv", ["b", "a", "a"], examples_R=["7", "7", "2"], parts_R=["train", "test", "train"]
    )
    assert [held.tolist() for held in assigned.held_K] == [[2, 7], [7]]
    assert [test.tolist() for test in assigned.test_K] == [[7], []]
    assert assigned.has_shared_examples
    assert (assigned.group_K, assigned.group_names) == ((0, 0), ())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"clients_R": ["", ""]}, "no example has a client"),
        ({"groups_R": ["a", "b"]}, "client c is in group a and in group b"),
        ({"groups_R": ["a", ""]}, "client c has no group"),
        ({"parts_R": ["train", "val"]}, "part 'val' of an example of client c; take train or test"),
        ({"examples_R": ["1", "one"]}, "example 'one' is no position"),
        ({"examples_R": ["4", "4"]}, "two rows give example 4 to client c"),
    ],
    ids=str,
)
def test_rows_that_cannot_be_are_refused(given, said):
    with pytest.raises(DataError) as refused:
        assign_rows("t.csv", **{"clients_R": ["c", "c"], **given})
    assert str(refused.value).startswith("t.csv: ")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["10", "2", "-1", "+1", "0.5", "-2"], ["-2", "-1", "0.5", "+1", "2", "10"]),
        (["10", "2", "b", "-1"], ["-1", "10", "2", "b"]),
        (["e\u0301", "f", "\u00e9"], ["\u00e9", "f"]),
    ],
    ids=["numbers", "texts", "two spellings"],
)
def test_names_are_in_the_order_of_their_numbers_or_of_their_texts(names, ordered):
    """A name in two spellings comes where the first of them does."""
    assert sort_names(names) == ordered


def test_two_spellings_of_a_client_are_one():
    assigned = assign_rows("t.csv", ["e\u0301", "\u00e9"], groups_R=["\u00e4", "a\u0308"])
    assert (assigned.client_names, assigned.group_names) == (("\u00e9",), ("\u00e4",))
    assert [held.tolist() for held in assigned.held_K] == [[0, 1]]
