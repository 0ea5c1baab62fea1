"""Private parts of Ray that fedgrid uses, so that another version's change is found.

`pyproject.toml` keeps versions away for which this has not passed.
"""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import ray

from fedgrid.grids.ray_cluster.local import STAND_INS

CHECKOUT = Path(__file__).parents[3]
PARTS = {
    "ray._private.node": ("Node",),
    "ray._private.ray_constants": ("ENABLE_RAY_CLUSTER",),
    "ray._private.utils": ("get_num_cpus", "estimate_available_memory", "resolve_object_store_memory"),
    "ray._private.runtime_env.packaging": ("_dir_travel", "_get_excludes"),
    "ray._private.accelerators": ("get_accelerator_manager_for_resource",),
    "ray._raylet": ("Config",),
    "ray.air._internal.usage": ("tag_callbacks",),
    "ray.tune.execution.class_cache": ("DEFAULT_ENV_VARS", "ENV_VARS_TO_PROPAGATE"),
}
PRIVATE = re.compile(r"ray\.(\w+\.)*_|ray\.tune\.execution\.")


def imported() -> set[str]:
    """Return the private modules of Ray that fedgrid imports, or names of which it does."""
    names = set()
    for path in (CHECKOUT / "fedgrid").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
    return {name for name in names if PRIVATE.match(name)}


def test_version_of_ray_has_the_private_parts_that_are_used():
    changed = [
        f"{module}.{name}"
        for module, names in PARTS.items()
        for name in names
        if not hasattr(import_module(module), name)
    ]
    node = import_module("ray._private.node").Node
    for name, stand_in in STAND_INS.items():
        own, given = (inspect.signature(each).parameters for each in (getattr(node, name), stand_in))
        if [*own][1:] != [*given][1:]:
            changed.append(f"Node.{name}")
    assert changed == [], f"Ray {ray.__version__} has changed these; fedgrid was written for 2.60"


def test_all_private_parts_are_named_here():
    whole = {f"{module}.{name}" for module, names in PARTS.items() for name in names}
    assert {name for name in imported() if name not in whole and name not in PARTS} == set()


def test_version_of_ray_has_an_upper_bound():
    assert re.search(r'"ray\[default,tune\]<[\d.]+"', (CHECKOUT / "pyproject.toml").read_text())
