"""Print which GPUs Ray has on each node, and which one a task there sees: `python -m tests.cluster.granted`.

It takes the place of `fedgrid` in a job of tests/cluster/slurm.sh, and waits to be ended with it.
"""

import logging
import os
import signal

import ray


@ray.remote(num_cpus=0)
def visible() -> str:
    """Return the GPUs that this task may use."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")


def main() -> None:
    """Ask each node of the cluster at RAY_ADDRESS."""
    ray.init(logging_level=logging.ERROR, log_to_driver=False)
    for node in sorted(ray.nodes(), key=lambda node: str(node["NodeManagerAddress"])):
        address, number = node["NodeManagerAddress"], int(node["Resources"].get("GPU", 0))
        here = {f"node:{address}": 0.01}
        tasks = [visible.options(num_gpus=1, resources=here).remote() for _ in range(number)]
        seen = " ".join(sorted(ray.get(tasks))) or "none"
        print(f"{address}: {number} GPUs, CUDA_VISIBLE_DEVICES of a task: {seen}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
