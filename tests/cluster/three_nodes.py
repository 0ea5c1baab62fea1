"""Run a grid on three nodes and remove one of them meanwhile: `python -m tests.cluster.three_nodes FOLDER`.

This is a process of its own because a process can have one Ray cluster only, and the other tests use theirs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from ray.cluster_utils import Cluster

from tests.helpers.command_line import new_storage, strict_json

GRID = Path(__file__).with_name("small.yaml")
ACTORS = ("--clients-per-actor", "6", "--cpus-per-actor", "1.5")
"""One actor a run, large enough that a node with two CPUs holds one run and not two."""
ROUNDS = 10
ROUNDS_BEFORE = 2
"""Rounds of all runs before a node is removed: the first two runs, one on each node, are both unfinished.
Their first rounds are reported at once, the others a second later."""


def arguments(storage: Path) -> list[str]:
    """Return the arguments with which `fedgrid` runs the grid."""
    return ["run", str(GRID), "--storage", str(storage), "--set", f"training.rounds={ROUNDS}", "--json"]


def fedgrid_run(storage: Path, *options: str, **environment: str) -> "subprocess.Popen[str]":
    """Start the grid in a process of its own, which prints its events as JSON."""
    program = "from fedgrid.grids.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments(storage), *options],
        cwd=GRID.parents[2],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def lose_a_node(storage: Path) -> dict[str, int]:
    """Run the grid and remove a node meanwhile; return the exit code and the number of retries."""
    head = {"num_cpus": 1, "include_dashboard": False, "include_log_monitor": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes = [cluster.add_node(num_cpus=2, include_log_monitor=False) for _ in range(2)]
        cluster.wait_for_nodes()
        run = fedgrid_run(storage, *ACTORS, RAY_ADDRESS=cluster.address)
        assert run.stdout is not None
        rounds = retries = 0
        for line in run.stdout:
            event = strict_json(line)["event"]
            rounds += event == "round"
            retries += event == "retry"
            if event == "round" and rounds == ROUNDS_BEFORE:
                cluster.remove_node(nodes.pop(), allow_graceful=False)
        return {"code": run.wait(), "retries": retries, "nodes_left": 1 + len(nodes)}
    finally:
        cluster.shutdown()


def main(folder: Path) -> None:
    """Print the exit code, the number of retries and how many nodes are left."""
    # Ray leaves the address of its last cluster in this folder. Its sockets need a short path.
    with TemporaryDirectory(prefix="ray-") as own, patch.dict(os.environ, RAY_TMPDIR=own):
        print(json.dumps(lose_a_node(new_storage(folder / "three-nodes"))), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
