"""What counts as a hop of a value, and where a value is found."""

from dataclasses import dataclass

import numpy as np
import pytest

from benchmarks.walks import TEST_COLUMN, UPDATE_FORMS, Case, build_walk, match_value, name_form


def test_hop_counts_once_passes_each_time_and_a_thread_begins_anew():
    walk = build_walk([["a", "b", "b", "a", "b", "c"], ["d"]])
    assert walk.modules == {"a", "b", "c", "d"}
    assert walk.hops == {("a", "b"), ("b", "a"), ("b", "c")}
    assert (walk.both_ways, walk.passes) == (1, 4)


@dataclass(frozen=True)
class Frozen:
    value: object


@dataclass
class Service:
    value: object


class RunConfig(Frozen):
    pass


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (0.25, True),
        (0.5, False),
        ("at 0.25 of all", True),
        (np.array([1.0, 0.25]), True),
        (np.array([1, 2]), False),
        ({"a": [(Frozen(0.25),)]}, True),
        ([[[[[0.25]]]]], False),
        (Service(0.25), False),
        (RunConfig(0.25), False),
    ],
)
def test_value_is_found_within_data_but_not_within_services_or_whole_runs(given, found):
    assert match_value(0.25)(given) == found


def test_object_of_a_class_is_found_by_its_name():
    assert match_value(0.25, {"Service"})([Service(1)])
    assert not match_value(0.25, {"Frozen"})([Service(1)])


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ("at 0.25 of all", "text"),
        ([0.5, 0.25], "number"),
        ({"a": 0.25}, "dict"),
        ({"a": [Frozen(0.25)]}, "Frozen"),
        (RunConfig(0.25), "RunConfig"),
        (Frozen(0.5), None),
    ],
)
def test_form_is_the_innermost_object_that_has_the_value(given, form):
    assert name_form(given, Case("a value", match_value(0.25))) == form


def test_forms_of_an_update_are_classes_and_the_row_of_its_test():
    case = Case("an update", match_value(0.25), UPDATE_FORMS)
    served = type("Served", (), {})()
    assert name_form({0: [served]}, case) == "Served"
    assert name_form({TEST_COLUMN: 0.5}, case) == "row"
    assert name_form(Frozen(served), case) is None
