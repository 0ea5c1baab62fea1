"""Names on the terminal: no markup, no emoji codes, no control characters."""

import io
import re
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import fedgrid.grids
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.plain_console import PlainConsole, warn
from fedgrid.grids.display.progress import ProgressBars
from fedgrid.grids.results.runs import failed_run
from tests.helpers.small_grid import config

NAMES = ["run [/b]", ":bomb: [link=x]"]


def console(**settings):
    return PlainConsole(file=io.StringIO(), width=200, color_system=None, **settings)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_they_are(name):
    screen = console()
    table = Table(name, title=name)
    table.add_row(name)
    table.add_row(Text(name, "bold"))
    screen.print(name)
    screen.print(table)
    assert screen.file.getvalue().count(name) == 5


@pytest.mark.parametrize("name", NAMES)
def test_cause_is_shown_while_runs_run(tmp_path, name):
    run = config(seed=1)
    screen = console(force_terminal=True)
    with ProgressBars(screen, [run]) as view:
        view.show_encoder(run, name)
        view.show_start(run, 0)
        view.show_retry(run, name, 1)
        view.show_start(run, 0)
        view.show_result(run, failed_run(run, Storage.from_text(tmp_path), name))
    lines = screen.file.getvalue()
    assert f"retry   fedavg: {name}" in lines
    assert f"failed  fedavg: {name}" in lines


def test_warning_is_no_markup(capsys):
    warn("run [/b]")
    assert capsys.readouterr().err == "warning: run [/b]\n"


def test_no_other_console_is_made():
    """A console of rich itself reads names as markup."""
    root = Path(fedgrid.grids.__file__).parent
    made = {path.name for path in root.rglob("*.py") if re.search(r"(?<!Plain)Console\(", path.read_text())}
    assert not made
