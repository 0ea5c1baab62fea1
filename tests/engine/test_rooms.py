"""The pure modules of the engine run without Ray, and names without torch."""

import subprocess
import sys

HEAVY = {
    "federation.models.registry": {"ray", "torch"},
    "runtime.data.datasets": {"ray", "torch"},
    "federation.dealing.split": {"ray"},
    "federation.models.flat_vectors": {"ray"},
    "federation.training.local": {"ray"},
}
"""Module -> what it must not import. One process imports all of them in this order: torch takes seconds."""


def test_pure_modules_do_not_import_ray_and_names_do_not_need_torch():
    program = f"""
import sys
from importlib import import_module
for module, heavy in {HEAVY}.items():
    import_module("fedgrid.engine." + module)
    assert not heavy & sys.modules.keys(), module
from fedgrid.engine.federation.inputs import pixels
from fedgrid.engine.federation.models.flat_vectors import blank
blank("digitnet", pixels(1, 8, 8), 10)
assert "sympy" not in sys.modules, "half a second for each client actor"
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
