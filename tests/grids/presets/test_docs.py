"""The examples of docs/presets.md, executed."""

import re
from pathlib import Path

import pytest

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.grids.presets.load import load_grid

NOWHERE = Path("no-data-needed")
DOCS = Path(__file__).parents[3] / "docs" / "presets.md"


def examples():
    """The YAML files of docs/presets.md, by name."""
    blocks = re.findall(r"```yaml\n# (\S+)\n(.*?)```", DOCS.read_text(), re.DOTALL)
    return {name: f"# {name}\n{text}" for name, text in blocks}


def test_the_examples_of_the_docs_are_grids(write):
    counts = {
        name: len(load_grid(write(text, name), {}, [], NOWHERE).runs) for name, text in examples().items()
    }
    assert counts == {"my-grid.yaml": 1 * 2 * 1 * 2 * (2 * 5 - 2) * 7, "two-axes.yaml": 3 * 2 * 2 * 3}
    assert len(load_grid("two-axes.yaml", {}, [], NOWHERE, filters=["split.majority=0.5"]).runs) == 12
    assert len(load_grid("two-axes.yaml", {}, ["training.local_epochs+=20"], NOWHERE).runs) == 54


def test_the_error_of_the_docs_is_the_error_of_its_example(write):
    path = write(examples()["my-grid.yaml"].replace("{rounds: 60}", "{rouns: 60}"), "my-grid.yaml")
    with pytest.raises(ConfigError) as error:
        load_grid(path, {}, [], NOWHERE)
    shown = re.search(r"    fedgrid: (my-grid.yaml, line .*), \.\.\.", DOCS.read_text())
    assert shown
    assert str(error.value).startswith(shown[1])
