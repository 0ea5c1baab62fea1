"""Wait for the machines of a cluster: `python -m fedgrid.grids.ray_cluster.joined NUMBER`, at RAY_ADDRESS.

A grid is planned for the machines that have joined when it starts: with the first alone, a run that needs two
would be refused. A machine that does not join within `WAIT_SECONDS` is not waited for.
"""

import logging
import sys
import time

WAIT_SECONDS = 120.0
"""Seconds after which the grid starts without the machines that are missing."""
PAUSE_SECONDS = 0.5


def main(number: int) -> None:
    """Wait until this number of machines has joined; warn if they do not."""
    import ray

    ray.init(logging_level=logging.ERROR, log_to_driver=False)
    end = time.monotonic() + WAIT_SECONDS
    while (joined := sum(node["Alive"] for node in ray.nodes())) < number:  # type: ignore[no-untyped-call]
        if time.monotonic() > end:
            print(f"warning: {joined} of {number} machines have joined Ray; the grid starts on these")
            break
        time.sleep(PAUSE_SECONDS)
    ray.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
