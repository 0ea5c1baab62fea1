"""Ctrl-C and SIGTERM while a storage that always fails is tried again."""

import os
import signal

import pytest

from fedgrid.engine.runtime.storage import remote as remote_module
from fedgrid.engine.runtime.storage.clock import CLOCK
from tests.helpers.command_line import fedgrid

RUN = ("run", "--dataset", "digits", "--algorithm", "fedavg", "--clients", "3", "training.rounds=3")


@pytest.fixture(scope="module", autouse=True)
def imports(tmp_path_factory):
    """Import all that a run does: an interruption in the middle would leave half a module to other tests."""
    storage = tmp_path_factory.mktemp("runs")
    assert fedgrid(*RUN, "--storage", storage, "--in-process", "--track", "none").code == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interruption_ends_a_run_whose_storage_is_away(tmp_path, monkeypatch, number):
    """Pauses take no time here, so an interruption that is not heeded is a loop of five minutes."""
    sent = []
    connect = remote_module.open_file_system

    def connect_until_a_state_is_there(uri):
        remote, base = connect(uri)
        if any(name.startswith("state-") for _, _, names in os.walk(tmp_path / "cache") for name in names):
            raise OSError("the storage is away")
        return remote, base

    def interrupt(seconds):
        if not sent:
            sent.append(seconds)
            os.kill(os.getpid(), number)

    monkeypatch.setattr(remote_module, "open_file_system", connect_until_a_state_is_there)
    before = CLOCK.pause
    object.__setattr__(CLOCK, "pause", interrupt)
    try:
        result = fedgrid(
            *RUN,
            *("--storage", f"memory://{tmp_path.name}/runs", "--in-process", "--track", "none"),
            FEDGRID_CACHE=str(tmp_path / "cache"),
        )
    finally:
        object.__setattr__(CLOCK, "pause", before)
    assert len(sent) == 1
    assert result.code == 130
    assert result.err.splitlines()[-1] == "fedgrid: interrupted; the same command continues"
