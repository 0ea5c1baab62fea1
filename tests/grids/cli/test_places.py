"""Every path and text of every command: none may be empty, and outputs are checked before the work."""

from inspect import signature
from pathlib import Path
from typing import get_args

import pytest
import typer

from fedgrid.grids.cli.commands.app import EMPTY_ALLOWED
from fedgrid.grids.cli.main import app
from tests.helpers.command_line import fedgrid

COMMANDS = {
    (name, *inner): command
    for name, group in typer.main.get_command(app).commands.items()
    for inner, command in (
        [((key,), one) for key, one in getattr(group, "commands", {}).items()] or [((), group)]
    )
}


def takes_text(parameter):
    kind = (*get_args(parameter.annotation), parameter.annotation)[0]
    kinds = {kind, *get_args(kind), *(inner for part in get_args(kind) for inner in get_args(part))}
    return bool(kinds & {str, Path}) and parameter.name not in EMPTY_ALLOWED


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_no_path_or_text_of_a_command_may_be_empty(refused, name):
    command, before = COMMANDS[name], []
    its = [
        name for name, one in signature(command.callback, eval_str=True).parameters.items() if takes_text(one)
    ]
    for parameter in command.params:
        option = parameter.opts[-1] if parameter.opts[-1].startswith("-") else None
        if parameter.name in its:
            given = [option, ""] if option else [*before, ""]
            refused(*name, *given, says="is empty; ")
        if option is None:
            before.append("models")  # One of `list`'s kinds, and a text for all others.


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["report", "g", "--to", "file"], "--to file is a file; name a folder"),
        (["data", "digits", "--csv", "folder"], "--csv folder is a folder; name a file"),
        (["data", "digits", "--figure", "file/new.svg"], "/file is a file; name another place"),
        (["run", "quickstart", "--data-dir", "file", "--dry-run"], "/file is a file; name a folder"),
        (["run", "$NOPE/mine.yaml"], "the variable NOPE is not set"),
        (["status", "--storage", "gs:bucket"], "did you mean gs://bucket?"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_the_work(refused, tmp_path, command, says):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    refused(*command, says=says)


@pytest.mark.parametrize("variable", ["FEDGRID_DATA", "FEDGRID_STORAGE"])
def test_a_place_of_the_environment_is_read_as_one_of_an_option(refused, variable):
    refused(
        "run", "--dataset", "mnist", "--dry-run", says="the variable NOPE is not set", **{variable: "$NOPE/x"}
    )


def test_a_variable_that_nothing_reads_is_named_with_the_nearest_one(storage):
    """It has no effect, and another program may read it: a warning."""
    result = fedgrid("status", "--storage", storage, FEDGRID_STORGE="x", FEDGRID_TRACK="none")
    assert result.code == 0
    [line] = result.err.splitlines()
    assert line.startswith("warning: FEDGRID_STORGE has no effect; did you mean 'FEDGRID_STORAGE'? known: ")


def test_a_grid_file_may_lie_in_the_home_folder(refused, tmp_path):
    """Its base and its plugins too."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "mine.yaml").write_text("base: ~/base.yaml\nplugins: [~/none.py]")
    (tmp_path / "home" / "base.yaml").write_text("seed: 1")
    refused("run", "~/mine.yaml", says="/home/none.py cannot be read", HOME=str(tmp_path / "home"))
