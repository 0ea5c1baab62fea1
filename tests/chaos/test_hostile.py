"""Storages as a stranger may have changed them; hundreds, of all files: python -m tests.chaos.hostile."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from tests.chaos.hostile import try_changes
from tests.chaos.storages import make_small, undrawn

ASKED = 3
"""Commands a storage, of all that there are."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A storage of finished runs, which no test changes."""
    return make_small(tmp_path_factory.mktemp("made"))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(rng=st.randoms(use_true_random=False))
def test_looking_at_a_strangers_storage_is_safe(made: Path, rng: Random) -> None:
    """Whatever the names, types and values of any file, each command ends with 0, 1 or 2 in a few lines.

    Nothing outside is shown, written or deleted.
    """
    with TemporaryDirectory(dir=made.parent) as folder, undrawn():
        changed, faults = try_changes(made, Path(folder), rng, ASKED, note)
        assert faults == [], changed
