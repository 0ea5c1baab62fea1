"""A killed grid, and the same command again; twenty kills: python -m tests.chaos.kills."""

import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.kills import command, mlflow_faults, start, undamaged
from tests.helpers.command_line import build_environment, fedgrid, wait_for_round
from tests.helpers.processes import LOOPBACK, list_listeners, list_processes, select_kind

ROUNDS = 10
GRID = f"""
clients: 4
algorithm: ocfl-kmeans
training: {{rounds: {ROUNDS}}}
"""
RUN = [sys.executable, "-c", "from fedgrid.grids.cli.main import main; main()", "run", "mine.yaml"]
ONE_ACTOR = ("--clients-per-actor", "4")
LINE = re.compile(rf"^digits-4-\S+-ocfl_kmeans-s0 round (\d+)/{ROUNDS} temp\. 0\.", re.MULTILINE)
"""What a launch prints of a round."""
SECRET = "s3cr3t-W0rd-of-S3"


def check_that_ray_is_private(driver: int) -> None:
    """Check that all listens on loopback only, and that no log of Ray's has a key of the storage."""
    found = list_processes(driver)
    addresses = list_listeners([driver, *found])
    # GCS, raylet and agents; how many idle workers listen beside them differs from moment to moment.
    assert len(addresses) >= 4
    assert set(addresses) <= set(LOOPBACK)
    [raylet] = select_kind("raylet", found)
    session = Path(re.search(r"--session[_-]dir=(\S+)", found[raylet])[1])
    files = [path for path in session.rglob("*") if path.is_file()]
    assert len(files) >= 10
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    assert stat.S_IMODE(session.parent.parent.stat().st_mode) == 0o700


@pytest.mark.ray
@pytest.mark.slow
def test_grid_killed_in_a_folder_with_packages_of_our_names_ends_with_the_same_bytes(tmp_path, monkeypatch):
    """The driver is killed, with a Ray cluster that it made itself.

    The same command starts another cluster, makes an MLflow store, and prints nothing but what it is to
    print. Servers and client actors: grids/execution/test_trials.py and engine/test_faults.py; MLflow of a
    killed driver: e2e/test_interruptions.py.
    """
    for name in ("engine", "algorithms", "grids", "tracking"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise ImportError('the {name} of the folder')\n")
    grid, killed, log = tmp_path / "mine.yaml", tmp_path / "runs", tmp_path / "errors.txt"
    grid.write_text(GRID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with start(command(grid, killed, *ONE_ACTOR), log, tmp_path) as driver:
        wait_for_round(driver, 1)
        check_that_ray_is_private(driver.pid)
        driver.kill()

    tracked = build_environment(FEDGRID_TRACK="mlflow")
    again = subprocess.run(
        [*RUN, *ONE_ACTOR, "--storage", "runs"], cwd=tmp_path, env=tracked, capture_output=True, text=True
    )
    assert (again.returncode, again.stderr) == (0, ""), log.read_text()
    assert "1 of 1 runs finished" in again.stdout
    printed = [int(number) for number in LINE.findall(again.stdout)]
    # On a busy machine the servers may have finished before they notice that their driver is dead.
    assert printed == list(range(ROUNDS + 1 - len(printed), ROUNDS + 1))
    assert len(printed) < ROUNDS, "a round that was reported is not computed again"

    whole = tmp_path / "whole"
    assert fedgrid("run", grid, "--in-process", "--storage", whole).code == 0
    assert undamaged(killed) == undamaged(whole)
    assert mlflow_faults(killed, "mine", ROUNDS) == []
