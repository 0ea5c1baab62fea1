"""Which drivers can use one storage at the same time."""

import json

import pytest

from fedgrid.engine.runtime.leases.driver import NONE, Claims


def changes(*keys):
    return Claims({key: f"run {key}" for key in keys})


def needs(*keys):
    return Claims(needs={key: f"run {key}" for key in keys})


def deletes(*keys):
    return Claims(deletes={key: f"run {key}" for key in keys})


CLASHES = {
    "one run of both": (changes("a", "b"), changes("b", "c"), "works on run b"),
    "three runs of both": (changes("a", "b", "c"), changes("a", "b", "c"), "works on run a and 2 more"),
    "other runs": (changes("a"), changes("b"), None),
    "finished run of both": (needs("a"), needs("a"), None),
    "finished here, listed there before it was": (needs("a"), changes("a"), None),
    "run that another deletes": (changes("a"), deletes("a"), "deletes run a"),
    "finished run that another deletes": (needs("a"), deletes("a"), "deletes run a"),
    "run to delete that another needs": (deletes("a"), needs("a"), "needs run a"),
    "run to delete that another trains": (deletes("a"), changes("a"), "needs run a"),
    "two that delete the same": (deletes("a"), deletes("a"), "needs run a"),
    "two grids": (NONE.and_grid("one"), NONE.and_grid("two"), None),
    "one grid": (NONE.and_grid("one"), changes("a").and_grid("one"), "works on the grid one"),
}


@pytest.mark.parametrize(("mine", "theirs", "clash"), CLASHES.values(), ids=CLASHES)
def test_claims_clash(mine, theirs, clash):
    assert mine.clash(Claims.of_json(json.loads(json.dumps(theirs.as_json())))) == clash
    assert (theirs.clash(mine) is None) == (clash is None), "both see it"


@pytest.mark.parametrize("found", [None, [], {"changes": []}, {"changes": 1, "needs": [], "deletes": []}])
def test_what_are_no_claims_is_refused(found):
    with pytest.raises(ValueError, match="no claims"):
        Claims.of_json(found)
