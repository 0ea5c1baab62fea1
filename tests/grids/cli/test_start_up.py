"""The start of the command line."""

import subprocess
import sys

HEAVY = {"matplotlib", "mlflow", "numpy", "pyarrow", "pydantic", "ray", "sklearn", "torch"}
"""Each takes a tenth of a second or more to import."""


def test_command_line_starts_without_heavy_imports():
    program = "import sys, fedgrid.grids.cli.main; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert HEAVY.isdisjoint(ended.stdout.split())
