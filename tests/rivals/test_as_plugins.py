"""A rival's file is a plugin: a copy with another name runs as one."""

from pathlib import Path

import pytest

import fedgrid.rivals
from fedgrid.algorithms import RIVALS
from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.runtime.plugins import active

FOLDER = Path(fedgrid.rivals.__path__[0])


@pytest.fixture(autouse=True)
def no_plugins():
    yield
    active.use_plugins()


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.__name__.rpartition(".")[2])
def test_copy_is_a_plugin(rival, tmp_path):
    text = Path(rival.__file__).read_text()
    for entry in rival.ALGORITHMS:
        text = text.replace(f'"{entry.name}"', f'"my-{entry.name}"').replace(
            f'"{entry.title}"', f'"My {entry.title}"'
        )
    copy = tmp_path / "copy.py"
    copy.write_text(text)
    active.use_plugins([copy])
    for entry in rival.ALGORITHMS:
        assert ALGORITHMS[f"my-{entry.name}"].settings.model_dump() == entry.settings.model_dump()


def test_every_file_is_registered():
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert {rival.__name__.rpartition(".")[2] for rival in RIVALS} == files
