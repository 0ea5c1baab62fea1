"""Every command that the commands of a storage name can be copied, with the storage that was given."""

import re
import shlex

import pytest

from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from tests.helpers.command_line import fedgrid, new_storage
from tests.helpers.finished_runs import mark_finished
from tests.helpers.logged_runs import ROUNDS, build_config, write_run

FINISHED, WAITING = build_config(0), build_config(1)
NAMED = re.compile(r"fedgrid ((?:ui|run|show|status|report|table|sync|delete|cache) [^`\n;,]+)")


@pytest.fixture
def root(tmp_path):
    """A storage with a grid of a finished and a waiting run."""
    root = new_storage(tmp_path / "my runs")
    write_run(root, FINISHED, ROUNDS)
    mark_finished(root, FINISHED)
    folder = GridFolder(Storage(root), "mine")
    folder.keep([FINISHED, WAITING], "dataset: digits\n")
    return root


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (("status",), 1),
        (("show", "mine"), 5),
        (("show", FINISHED.run_id), 1),
        (("report", "mine"), 2),
        (("run", "mine", "--failed"), 1),
        (("show", "missing"), 1),
        (("show", "mine", "--figure", "x.png"), 1),
        (("stop", "mine"), 1),
    ],
)
def test_named_commands_have_the_storage(root, asked, count):
    result = fedgrid(*asked, "--storage", root)
    named = [shlex.split(line) for line in NAMED.findall(result.out + result.err)]
    assert len(named) == count, result.out + result.err
    for words in named:
        assert words[-2:] == ["--storage", str(root)]
        if words[0] in ("show", "status") and "GRID" not in words:
            assert fedgrid(*words).code == 0
