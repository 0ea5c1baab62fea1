"""Grids on Ray from programs that use Ray too: whatever they have imported or started before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import asyncio
from pathlib import Path
from threading import Thread

import ray, ray.tune, torch, mlflow, pandas

import fedgrid
from fedgrid.grids.ray_cluster.cluster import find_nodes

def run(seed):
    grid = {"clients": 3, "algorithm": "fedavg", "seeds": seed, "training": {"rounds": 1, "local_epochs": 1}}
    study = fedgrid.run_grid(grid, name=f"grid-{seed}", storage="runs")
    print("finished", seed, len(study.finished), [run.lacking for run in study.unfinished])

async def cell():
    run(1)

find_nodes()
Path.home().joinpath(".ray").mkdir()
Path.home().joinpath(".ray", "auth_token").write_text("0123456789abcdef" * 4)  # Another first start's.
thread = Thread(target=run, args=(0,))
thread.start()
thread.join()
print("stopped", not ray.is_initialized())
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
asyncio.run(cell())
print("running", ray.get(ray.remote(lambda: ray.is_initialized()).remote()))
"""


@pytest.mark.slow
def test_grids_start_after_other_imports_in_a_thread_in_an_event_loop_and_on_the_programs_ray(
    tmp_path: Path,
) -> None:
    """With a token that appears after Ray was imported, as from another first start at the same time."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_AUTH")}
    environment |= {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "finished 0 1 []",
        "stopped True",
        "finished 1 1 []",
        "running True",
    ]
