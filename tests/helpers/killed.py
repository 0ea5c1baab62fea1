"""A command that is killed in this process, in the middle of its rounds."""

import pytest

from fedgrid.engine.runtime.run.session import Session


class Killed(BaseException):
    """An exception that no part of a run may catch."""


def kill_after(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise `Killed` when this many rounds have been run in this process."""

    class Mortal(Session):
        left = rounds

        def next_round(self):
            if Mortal.left == 0:
                raise Killed
            Mortal.left -= 1
            return super().next_round()

    monkeypatch.setattr("fedgrid.engine.runtime.run.session.Session", Mortal)
