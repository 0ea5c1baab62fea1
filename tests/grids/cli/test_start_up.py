"""The start of the command line."""

import subprocess
import sys

HEAVY = {"matplotlib", "mlflow", "numpy", "pyarrow", "pydantic", "ray", "sklearn", "torch"}
"""Each takes a tenth of a second or more to import."""


def test_command_line_starts_without_heavy_imports():
    program = "import sys, fedgrid.grids.cli.main; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert HEAVY.isdisjoint(ended.stdout.split())


def test_driver_checks_images_and_launches_without_the_import_of_torch():
    """Bad images are refused at once, and a driver of actors does without: torch takes seconds."""
    program = (
        "import sys, fedgrid.grids.planning.checks, fedgrid.grids.execution.launch; "
        "from fedgrid.engine.data.readers import digits; digits(None); print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert (HEAVY - {"numpy", "pyarrow", "pydantic"}).isdisjoint(ended.stdout.split())
