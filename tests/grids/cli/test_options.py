"""Values of options that fedgrid parses itself, and groups of options."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer import BadParameter
from typer.testing import CliRunner

from fedgrid.grids.cli.commands.app import expand_groups
from fedgrid.grids.cli.commands.options import parse_size


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200GB", 200 * 10**9),
        ("1.5 gib", 3 * 2**29),
        (".5kB", 500),
        ("12", 12),
        ("2 TB", 2 * 10**12),
    ],
)
def test_size_is_a_number_with_an_optional_unit(text, expected):
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "0.1B", "-1GB", "1,5GB", "5XB", "1e3"])
def test_refused_size_is_named_with_an_example_and_the_units(text):
    with pytest.raises(BadParameter) as refused:
        parse_size(text)
    message = str(refused.value)
    assert message.startswith(repr(text))
    assert all(word in message for word in ("200GB", "KB", "TiB"))


@dataclass(frozen=True)
class Paper:
    """A group of two options."""

    width: Annotated[int, typer.Option(min=1)] = 210
    is_lined: Annotated[bool, typer.Option("--lined")] = False


def test_parameter_of_a_group_stands_for_its_options_in_its_place():
    app, had = typer.Typer(), []

    @app.command()
    @expand_groups
    def write(*, text: Annotated[str, typer.Argument()], paper: Paper, copies: int = 1) -> None:
        """Write."""
        had.append((text, paper, copies))

    assert CliRunner().invoke(app, ["hello", "--lined", "--copies", "2"]).exit_code == 0
    assert had == [("hello", Paper(210, True), 2)]
    assert CliRunner().invoke(app, ["hello", "--width", "0"]).exit_code == 2
    shown = CliRunner().invoke(app, ["--help"]).output
    assert shown.index("--width") < shown.index("--lined") < shown.index("--copies")
