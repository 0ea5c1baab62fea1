"""Which drivers can use one storage at the same time."""

import pytest

from fedgrid.engine.runtime.leases.driver import Keys

CLASHES = {
    "both exclusively": (Keys({"a", "b"}), Keys({"b", "c"}), ["b"]),
    "exclusively and shared": (Keys({"a"}), Keys(shared={"a", "b"}), ["a"]),
    "both shared": (Keys(shared={"a"}), Keys(shared={"a"}), []),
    "other keys": (Keys({"a"}, {"c"}), Keys({"b"}, {"c"}), []),
    "several": (Keys({"b"}, {"a"}), Keys({"a"}, {"b"}), ["a", "b"]),
}


@pytest.mark.parametrize(("mine", "theirs", "clash"), CLASHES.values(), ids=CLASHES)
def test_keys_clash(mine, theirs, clash):
    assert mine.clash(theirs) == theirs.clash(mine) == clash
