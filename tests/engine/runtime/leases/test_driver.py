"""Which drivers can use one storage at the same time."""

import pytest

from fedgrid.engine.runtime.leases.driver import LeaseKeys

CLASHES = {
    "both exclusively": (LeaseKeys({"a", "b"}), LeaseKeys({"b", "c"}), ["b"]),
    "exclusively and shared": (LeaseKeys({"a"}), LeaseKeys(shared={"a", "b"}), ["a"]),
    "both shared": (LeaseKeys(shared={"a"}), LeaseKeys(shared={"a"}), []),
    "other keys": (LeaseKeys({"a"}, {"c"}), LeaseKeys({"b"}, {"c"}), []),
    "several": (LeaseKeys({"b"}, {"a"}), LeaseKeys({"a"}, {"b"}), ["a", "b"]),
}


@pytest.mark.parametrize(("mine", "theirs", "clash"), CLASHES.values(), ids=CLASHES)
def test_keys_clash(mine, theirs, clash):
    assert mine.find_clashes(theirs) == theirs.find_clashes(mine) == clash
