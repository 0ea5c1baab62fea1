"""The pages on plugins of one's own: the files of docs/examples run, and print what the pages show."""

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.reference.contract import pages
from fedgrid.engine.runtime.plugins import active
from tests.helpers.command_line import fedgrid, new_storage

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "".join((DOCS / page).read_text() for page in ("own-algorithm.md", "own-model.md", "own-data.md"))
BLOCKS = re.findall(r"```(\w+)(?: file=(\S+))?\n(.*?)```", TEXT, re.DOTALL)
EXAMPLES = DOCS / "examples"
COMMANDS = [block for kind, _, text in BLOCKS if kind == "console" for block in text.split("$ ")[1:]]


@pytest.fixture(scope="module", autouse=True)
def no_plugins_after() -> Iterator[None]:
    yield
    active.use_plugins()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that a reader has saved."""
    folder = tmp_path_factory.mktemp("reader")
    for file in EXAMPLES.iterdir():
        if file.is_file():
            shutil.copy(file, folder)
    new_storage(folder / "runs")
    return folder


def rows(text: str) -> dict[str, list[str]]:
    """Return title -> numbers of the rows of a table of results."""
    found = [line.split() for line in text.partition("Final round")[2].partition("pers.:")[0].splitlines()]
    return {line[0]: line[1:12] for line in found if len(line) > 11 and line[2].isdecimal()}


def test_every_example_is_on_a_page() -> None:
    """Linked, shown as it is (test_examples.py), or in the list of the contract."""
    texts = "".join(page.read_text() for page in DOCS.glob("*.md")) + pages()["reference/contract.md"]
    names = [path.name for path in (DOCS / "examples").iterdir() if path.is_file()]
    assert [name for name in names if name not in texts] == []


@pytest.mark.slow
@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.splitlines()[0])
def test_commands_print_what_is_shown(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process: the numbers are the same as on Ray. Of numbers a last digit may be another CPU's."""
    monkeypatch.chdir(folder)
    line, _, shown = block.partition("\n")
    _, command, *arguments = shlex.split(line)
    result = fedgrid(command, *arguments, *(["--in-process"] if command == "run" else []))
    assert (result.code, result.err) == (0, "")
    if command != "run":
        lines = [text for text in shown.splitlines() if text != "..." and "```" not in text]
        printed = [text.rstrip() for text in result.out.splitlines()]
        assert [text for text in lines if text not in printed] == [] != lines
        return
    expected, found = rows(shown), rows(result.out)
    assert list(found) == list(expected) != []
    for title, numbers in expected.items():
        assert found[title][:2] == numbers[:2]
        assert [float(number) for number in found[title][2:]] == pytest.approx(
            [float(number) for number in numbers[2:]], abs=0.02
        )


@pytest.mark.slow
@pytest.mark.parametrize("grid", ["mine.yaml", "own.yaml"])
def test_grid_of_the_examples_runs(grid: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = fedgrid("run", grid, "--in-process")
    assert (result.code, result.err) == (0, "")
    assert "1.000" in result.out, "a run finds the groups"


def test_notebook_example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    [code] = [text for kind, file, text in BLOCKS if kind == "python" and not file]
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["result"].config["algorithm"]["name"] == "long-short"
    assert names["result"].rounds == 3
