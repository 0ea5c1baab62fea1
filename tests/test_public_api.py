"""`import fedgrid`: what notebooks and plugins use, without what they do not need.

In a folder with packages of our names: chaos/test_kills.py. What is imported when: test_packaging.py.
"""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fedgrid

ROOT = Path(__file__).parents[1]
CONFIG = {"clients": 3, "algorithm": "fedavg", "training": {"rounds": 2}}


@pytest.mark.parametrize("name", fedgrid.__all__)
def test_every_promised_name_is_there_and_listed(name: str) -> None:
    assert getattr(fedgrid, name) is not None
    assert name in dir(fedgrid)


def test_examples_import_from_fedgrid_alone() -> None:
    named: set[str] = set()
    for path in (ROOT / "docs" / "examples").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "fedgrid":
                assert node.module == "fedgrid", ast.unparse(node)
                named |= {alias.name for alias in node.names}
    assert {"Message", "Adaptation", "Layout", "split", "LocalMethod"} <= named
    assert named <= set(fedgrid.__all__)


def test_star_import_gives_the_promised_names() -> None:
    names: dict[str, object] = {}
    exec("from fedgrid import *", names)
    assert set(fedgrid.__all__) <= set(names)


def test_finished_run_is_read_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fedgrid.run(CONFIG, storage=tmp_path)
    monkeypatch.setattr("fedgrid.grids.execution.one_run.run_to_end", None)
    again = fedgrid.run(first.config, storage=str(tmp_path))
    assert (again.folder, again.scores) == (first.folder, first.scores)
    short = {key: first.config[key] for key in ("dataset", "clients", "seed", "model", "training")}
    assert fedgrid.run(fedgrid.RunConfig(**short, algorithm={"name": "fedavg"}), storage=tmp_path) == again
    of_numpy = {**CONFIG, "clients": np.int64(CONFIG["clients"])}
    assert fedgrid.run(of_numpy, storage=tmp_path).folder == first.folder


def test_generators_of_the_caller_stay_as_they_are(tmp_path: Path) -> None:
    """In a program of its own, which imports all that a run needs, rich and torch among it."""
    program = f"""
import random
import numpy as np
before = random.getstate(), np.random.get_state()[1].tolist()
import fedgrid
fedgrid.run({CONFIG}, storage={str(tmp_path)!r})
assert (random.getstate(), np.random.get_state()[1].tolist()) == before
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
