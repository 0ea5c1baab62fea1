"""The start and the end of the command line."""

import io
import subprocess
import sys

import pytest

from fedgrid.grids.cli import main

HEAVY = {"matplotlib", "mlflow", "numpy", "pyarrow", "pydantic", "ray", "sklearn", "torch"}
"""Each takes a tenth of a second or more to import."""


def modules_after(program, folder=None):
    """Return the modules that a program has imported, in a process of its own."""
    program += "\nimport sys; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    return set(ended.stdout.split())


def test_command_line_starts_without_heavy_imports():
    assert not HEAVY & modules_after("import fedgrid.grids.cli.main")


def test_study_is_begun_shown_and_looked_at_without_heavy_imports(tmp_path):
    """Also what a new study's plugin imports waits until it is used."""
    commands = ("init mine", "list algorithms one-cut --plugin mine/mine_plugin.py", "status")
    program = (
        "from fedgrid.grids.cli.main import app\n"
        f"for command in {commands}: app(command.split(), standalone_mode=False)"
    )
    heavy = (HEAVY | {"pandas", "scipy"}) - {"numpy", "pyarrow", "pydantic"}
    assert not heavy & modules_after(program, tmp_path)


def test_module_is_the_command_and_h_is_its_help():
    ended = subprocess.run(
        [sys.executable, "-m", "fedgrid", "run", "-h"], stdout=subprocess.PIPE, text=True, check=True
    )
    assert "Usage: fedgrid run" in ended.stdout


def test_driver_checks_images_and_launches_without_the_import_of_torch():
    """Bad images are refused at once, and a driver of actors does without: torch takes seconds.

    So do the names of models, data sets and splits.
    """
    program = (
        "import fedgrid.grids.planning.checks, fedgrid.grids.execution.launch; "
        "import fedgrid.engine.federation.models.registry, fedgrid.engine.runtime.data.datasets; "
        "import fedgrid.engine.federation.dealing.split; "
        "from fedgrid.engine.federation.data.readers import read_digits; read_digits(None)"
    )
    assert not (HEAVY - {"numpy", "pyarrow", "pydantic"}) & modules_after(program)


def test_end_of_the_process_runs_what_was_registered_for_it_and_has_the_exit_code():
    program = (
        "import atexit, sys, fedgrid.grids.cli.main as main\n"
        "main.run_command = lambda: (print('done'), atexit.register(print, 'shut down'), sys.exit(3))\n"
        "main.main()"
    )
    ended = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "done\nshut down\n")


class Broken(io.StringIO):
    """A pipe that nobody reads any more."""

    def flush(self):
        raise BrokenPipeError


@pytest.mark.parametrize(("code", "stdout"), [(None, sys.stdout), ("why", sys.stdout), (0, Broken())])
def test_process_ends_as_usual_without_a_code_or_where_the_output_is_a_broken_pipe(monkeypatch, code, stdout):
    """Python then says why: a traceback, a text, or that the pipe is broken."""
    monkeypatch.setattr(main.os, "_exit", lambda code: pytest.fail("it would end at once"))
    monkeypatch.setattr(main.logging, "shutdown", lambda: None)
    monkeypatch.setattr(sys, "stdout", stdout)
    leave = main._ExitHandler()
    leave.code = code
    leave()
