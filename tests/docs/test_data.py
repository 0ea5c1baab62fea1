"""The examples of docs/data.md: every command prints what the document says."""

import re
import shlex
from pathlib import Path

import pytest

from fedgrid.engine.data.registry import DATASETS
from fedgrid.engine.models.registry import MODELS
from fedgrid.engine.partition.kinds import KINDS
from tests.helpers.command_line import fedgrid

TEXT = (Path(__file__).parents[2] / "docs" / "data.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = [
    part.partition("\n") for kind, text in BLOCKS if kind == "console" for part in text.split("$ ")[1:]
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the document's Python writes."""
    folder = tmp_path_factory.mktemp("reader")
    [code] = [text for kind, text in BLOCKS if kind == "python"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(code, {})
    return folder


@pytest.mark.parametrize(("command", "output"), [(command, output) for command, _, output in COMMANDS])
def test_command_prints_what_the_document_says(
    command: str, output: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = fedgrid(*shlex.split(command)[1:])
    assert (result.code, result.err) == (0, "")
    assert result.out.rstrip() == output.rstrip()


def test_every_kind_is_in_the_table() -> None:
    rows = TEXT.partition("## Splits")[2].partition("\n\nAll but")[0].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| `") and "who holds" not in row]
    assert [name for cell in cells for name in re.findall("`(.*?)`", cell)] == list(KINDS)


def test_every_data_set_and_model_is_in_its_table_with_its_sizes() -> None:
    first = TEXT.partition("## Training")[0].replace(" x ", "x")
    for name, dataset in DATASETS.items():
        [row] = [row for row in first.splitlines() if row.startswith("|") and f"`{name}`" in row]
        assert "x".join(map(str, dataset.shape)) in row
    models = TEXT.partition("\n## Models")[2].partition("\n## ")[0].splitlines()
    rows = {row.split("`")[1]: row for row in models if row.startswith("| `")}
    assert list(rows) == list(MODELS)
    for name, entry in MODELS.items():
        assert rows[name].endswith(f"| {entry.minimum_side} |")
        assert any(f"{count:,} ({size})" in rows[name] for size, count in entry.parameters.items())
