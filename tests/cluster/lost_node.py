"""Run a grid on two nodes and remove one of them meanwhile: `python -m tests.cluster.lost_node FOLDER`.

This is a process of its own because a process can have one Ray cluster only, and the other tests use theirs.
"""

import json
import os
import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from ray._private.node import Node
from ray.cluster_utils import Cluster

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.cli.main import run_command
from fedgrid.grids.execution.run_events import RoundDone, RunEvent
from fedgrid.grids.execution.watch import Watch
from fedgrid.grids.ray_cluster.local import RAY_SETTINGS, STAND_INS

GRID = Path(__file__).with_name("small.yaml")
ACTORS = ("--clients-per-actor", "6", "--cpus-per-actor", "1.5")
"""One actor a run, large enough that a node with two CPUs holds one run and not two."""
ROUNDS = 10
ROUNDS_BEFORE = 2
"""Rounds of all runs before a node is removed: the first two runs, one on each node, are both unfinished.
Their first rounds are reported at once, the others a second later."""


def arguments(storage: Path) -> list[str]:
    """Return the arguments with which `fedgrid` runs the grid."""
    return ["run", str(GRID), "--storage", str(storage), f"training.rounds={ROUNDS}", "--json"]


def lose_a_node(storage: Path) -> dict[str, int]:
    """Run the grid and remove a node meanwhile; return the exit code and the numbers of retries and nodes."""
    head = {"num_cpus": 2, "include_dashboard": False, "_system_config": dict(RAY_SETTINGS)}
    with patch.multiple(Node, **STAND_INS):
        cluster = Cluster(initialize_head=True, head_node_args=head)
        lost = cluster.add_node(num_cpus=2)
    handle, events = Watch.handle_event, Counter[type[RunEvent]]()

    def handle_and_remove(watch: Watch, config: RunConfig, event: RunEvent) -> None:
        handle(watch, config, event)
        events[type(event)] += 1
        if events[RoundDone] == ROUNDS_BEFORE and lost in cluster.worker_nodes:
            cluster.remove_node(lost, allow_graceful=False)

    try:
        with (
            patch.object(Watch, "handle_event", handle_and_remove),
            patch.object(sys, "argv", ["fedgrid", *arguments(storage), *ACTORS]),
            patch.dict(os.environ, RAY_ADDRESS=cluster.address),
            redirect_stdout(StringIO()) as printed,
        ):
            run_command()
    except SystemExit as end:
        kinds = [json.loads(line)["event"] for line in printed.getvalue().splitlines()]
        left = 1 + len(cluster.worker_nodes)
        return {"code": int(end.code or 0), "retries": kinds.count("retry"), "nodes_left": left}
    finally:
        cluster.shutdown()


def main(folder: Path) -> None:
    """Print the exit code, the number of retries and how many nodes are left."""
    # Ray leaves the address of its last cluster in this folder. Its sockets need a short path.
    with TemporaryDirectory(prefix="ray-") as own, patch.dict(os.environ, RAY_TMPDIR=own):
        print(json.dumps(lose_a_node(folder / "disturbed")), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
