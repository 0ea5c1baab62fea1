"""A run's folder as the engine writes it, without the engine."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.helpers.run_records import write_records

WriteRun = Callable[..., Path]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    return partial(write_records, tmp_path / "run")
