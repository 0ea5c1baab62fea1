"""The rooms of the engine import one another in one direction, and the pure ones run without Ray."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

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


HEAVY = {
    "models.registry": {"ray", "torch"},
    "data.datasets": {"ray", "torch"},
    "partition.split": {"ray"},
    "models.initialisation": {"ray"},
    "training.local": {"ray"},
}
"""Module -> what it must not import. One process imports all of them in this order: torch takes seconds."""


def test_pure_modules_do_not_import_ray_and_names_do_not_need_torch():
    program = f"""
import sys
from importlib import import_module
for module, heavy in {HEAVY}.items():
    import_module("fedgrid.engine." + module)
    assert not heavy & sys.modules.keys(), module
from fedgrid.engine.models.initialisation import blank
blank("digitnet", (1, 8, 8), 10)
assert "sympy" not in sys.modules, "half a second for each client actor"
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
