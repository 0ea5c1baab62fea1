"""The start of the command line."""

import subprocess
import sys

HEAVY = {"matplotlib", "mlflow", "numpy", "pyarrow", "pydantic", "ray", "sklearn", "torch"}
"""Each takes a tenth of a second or more to import."""


def test_command_line_starts_without_heavy_imports():
    program = "import sys, fedgrid.grids.cli.main; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert HEAVY.isdisjoint(ended.stdout.split())


def test_images_are_read_without_the_import_of_torch():
    """Bad ones are refused at once: torch takes seconds."""
    program = "import sys, fedgrid.grids.planning.checks, fedgrid.grids.execution.run; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert {"torch", "ray", "mlflow"}.isdisjoint(ended.stdout.split())
