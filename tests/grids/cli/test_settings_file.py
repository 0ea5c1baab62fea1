"""`fedgrid.toml` as a command meets it: what it sets, what comes before it, what is refused."""

import os

import pytest

from fedgrid.engine.runtime.plugins import active
from tests.helpers.command_line import fedgrid
from tests.helpers.plugin_files import ALGORITHM


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FEDGRID_STORAGE", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield tmp_path
    active.use_plugins()


def write(folder, text):
    (folder / "fedgrid.toml").write_text(text)


def test_storage_of_the_file_is_used_and_an_option_or_a_variable_comes_before_it(folder):
    write(folder, 'storage = "of-file"\n')
    assert f"no grid in {folder / 'of-file'}" in fedgrid("status").out
    assert f"no grid in {folder / 'given'}" in fedgrid("status", "--storage", "given").out
    assert f"no grid in {folder / 'of-variable'}" in fedgrid("status", FEDGRID_STORAGE="of-variable").out


def test_plugins_of_the_file_are_in_use_in_every_command_that_takes_them(folder):
    (folder / "own.py").write_text(ALGORITHM)
    write(folder, 'plugins = ["own.py"]\n')
    assert "OWN" in fedgrid("list", "algorithms", "own").out
    assert fedgrid("run", "--algorithm", "own", "--dry-run", "--in-process").code == 0


def test_variables_are_as_before_once_the_command_has_ended(folder):
    write(folder, 'storage = "of-file"\naddress = "127.0.0.1:9"\n')
    fedgrid("status")
    assert {"FEDGRID_STORAGE", "RAY_ADDRESS"}.isdisjoint(os.environ)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('storag = "x"', "unknown key 'storag' in fedgrid.toml; did you mean 'storage'?"),
        ("storage = 3", "fedgrid.toml: storage = 3: expected a text"),
        ('plugins = "mine.py"', "expected a list of files"),
        ("storage =", "fedgrid.toml is not TOML"),
    ],
)
def test_wrong_file_is_refused_in_one_line(folder, text, says):
    write(folder, text)
    result = fedgrid("status")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert says in result.err
