"""A grid on three nodes, one of which is lost amid it: `python -m tests.cluster.three_nodes FOLDER`.

In a process of its own, as a process has one Ray cluster and the other tests have theirs. Prints the exit
code, how many runs were retried and how many nodes are left.
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
ACTORS = ("--clients-per-actor", "6", "--cpus-per-client", "1.5")
"""One actor a run, so large that a run fits a node with two CPUs, but not two runs."""
ROUNDS = 10
ROUNDS_BEFORE = 7
"""How many rounds are done when the node goes: of the first two runs, one on each node, none is finished."""


def arguments(storage: Path) -> list[str]:
    """Return what `fedgrid` runs the grid with."""
    return ["run", str(GRID), "--storage", str(storage), "--set", f"training.rounds={ROUNDS}", "--json"]


def fedgrid_run(storage: Path, *options: str, **environment: str) -> "subprocess.Popen[str]":
    """Start the grid in a process of its own; its events can be read."""
    program = "from fedgrid.grids.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments(storage), *options],
        cwd=GRID.parents[2],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


def lose_a_node(storage: Path) -> dict[str, int]:
    """Run the grid, lose a node amid it; return the exit code and how many runs were tried again."""
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=2) for _ in range(2)]
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
    """Print what became of the grid."""
    # Ray leaves the address of its last cluster there, for whoever starts next. Sockets need a short path.
    with TemporaryDirectory(prefix="ray-") as own, patch.dict(os.environ, RAY_TMPDIR=own):
        print(json.dumps(lose_a_node(new_storage(folder / "three-nodes"))), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
