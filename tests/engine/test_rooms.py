"""The rooms of the engine import one another in one direction, and the pure ones run without Ray."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ENGINE = Path(__file__).parents[2] / "engine"


def imported_rooms(room: str) -> set[str]:
    """Other rooms that the modules of a room import, also inside functions."""
    nodes = (node for path in (ENGINE / room).rglob("*.py") for node in ast.walk(ast.parse(path.read_text())))
    modules = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    parts = [module.removeprefix("fedgrid.engine.").split(".")[0] for module in modules]
    return {part for part in parts if (ENGINE / part).is_dir() and part != room}


def test_imports_between_rooms_have_no_circle():
    rooms = [path.parent.name for path in ENGINE.glob("*/__init__.py")]
    graph = {room: imported_rooms(room) for room in rooms}
    order = list(TopologicalSorter(graph).static_order())
    assert set(order) == set(rooms)
    assert not {"clients", "round_cache"} & set().union(
        *(graph[room] for room in ("data", "partition", "models", "training", "storage"))
    )


@pytest.mark.parametrize(
    "module",
    ["data.datasets", "partition.split", "models.registry", "models.initialisation", "training.local"],
)
def test_pure_modules_do_not_import_ray(module):
    program = f"import sys, fedgrid.engine.{module}; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_names_of_models_and_data_sets_do_not_need_torch():
    program = (
        "import sys; from fedgrid.engine.models.registry import MODELS; "
        "from fedgrid.engine.data.datasets import DATASETS; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
