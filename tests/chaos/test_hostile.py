"""A few storages as a stranger may have changed them; hundreds: python -m tests.chaos.hostile."""

import pytest

from tests.chaos.hostile import try_seed
from tests.chaos.storages import make_small

pytestmark = pytest.mark.usefixtures("in_mlflow")

ASKED = 4
"""Commands a storage, of all that there are."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A storage of finished runs, which no test changes."""
    return make_small(tmp_path_factory.mktemp("made"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 5, 7, 11, 13])
def test_looking_at_a_strangers_storage_is_safe(made, tmp_path, seed):
    """Each command ends with 0, 1 or 2 in a few lines; nothing outside is shown, written or deleted."""
    changed, faults = try_seed(made, tmp_path, seed, ASKED, lambda _: None)
    assert faults == [], changed
