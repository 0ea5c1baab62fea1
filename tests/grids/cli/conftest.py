"""A command that is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.command_line import fedgrid


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that runs a command and checks that it is refused with `says` in the message."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, says: str, **settings: str) -> None:
        before = sorted(tmp_path.rglob("*"))
        result = fedgrid(*arguments, **settings)
        assert (result.code, result.out) == (2, ""), result
        assert result.err.startswith("fedgrid: ")
        assert result.err.count("\n") == 1
        assert says in result.err
        assert sorted(tmp_path.rglob("*")) == before

    return run
