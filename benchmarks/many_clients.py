"""Measure memory, and time outside training, of thousands of clients, a few of which train in a round.

python -m benchmarks.many_clients --rounds 10

The images are as FEMNIST's (28x28, 62 classes, one group a writer), made up; each client holds those of a
writer. All in this process and on one core: a few of the clients train in a round (`--participation`), and
only these are tested (`evaluation.clients: asked`). The first round is left out: it deals the images out.
"""

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.options import build_parser
from fedgrid.engine.federation.clients.messages import Memories, Models, Reply, TrainTask
from fedgrid.engine.federation.clients.process import measure_own_peak
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage

SIDE, CLASSES, TRAIN_PER_TEST = 28, 62, 10
FILE = "writers.npz"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the processor's seconds a round in training and elsewhere, and the peak of the memory."""
    parser = build_parser(__doc__, "twenty clients, four of which train in each of four rounds")
    parser.add_argument("--clients", type=int, default=3550)
    parser.add_argument("--images", type=int, default=226, help="of a client")
    parser.add_argument("--participation", type=float, default=0.02, help="share that trains in a round")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--model", default="lenet5")
    parser.add_argument("--algorithm", default="fedavg")
    parser.add_argument("--profile", action="store_true", help="Print where the time goes.")
    given = parser.parse_args(arguments)
    if given.quick:
        given.clients, given.images, given.participation, given.rounds = 20, 70, 0.2, 4
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="fedgrid-many-") as name:
        folder = Path(name)
        # In a process of its own: its memory is none of the federation's.
        making = get_context("spawn").Process(
            target=write_images, args=(folder / FILE, given.clients, given.images)
        )
        making.start()
        making.join()
        profile = cProfile.Profile() if given.profile else None
        measure_rounds(build_run(folder / FILE, given), folder, profile)
        if profile is not None:
            pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


def write_images(path: Path, clients: int, images: int) -> None:
    """Write an npz file of random images, `images` a client, a tenth as many for the server."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for part, each in (("train", images), ("test", max(1, images // TRAIN_PER_TEST))):
        count = clients * each
        # A few random images, again and again: their numbers do not matter, and the file stays small.
        arrays[f"{part}_images"] = np.resize(
            rng.integers(0, 256, (1000, SIDE, SIDE), np.uint8), (count, SIDE, SIDE)
        )
        arrays[f"{part}_labels"] = np.arange(count) % CLASSES
        arrays[f"{part}_group"] = np.arange(count) // each
    np.savez(path, allow_pickle=False, **arrays)


def build_run(path: Path, given: argparse.Namespace) -> RunConfig:
    """Build the run's configuration from the options."""
    return complete_config(
        {
            "dataset": f"npz:{path}",
            "clients": given.clients,
            "model": given.model,
            "algorithm": given.algorithm,
            "participation": given.participation,
            "evaluation": {"clients": "asked", "local_server": False},
            "split": {"kind": "natural", "server_images": min(1000, given.clients * given.images // 20)},
            "training": {"rounds": given.rounds, "local_epochs": given.epochs, "batch_size": 10},
        },
        path.parent,
    )


class TimedPool(InProcessPool):
    """A pool that adds up the processor's seconds in training and in the tests of local models."""

    seconds = 0.0

    def train(self, tasks: Sequence[TrainTask], models: Models, memories: Memories) -> list[Reply]:
        """Train as `Pool.train` does, and time it."""
        began = time.process_time()
        replies = super().train(tasks, models, memories)
        self.seconds += time.process_time() - began
        return replies


def measure_rounds(run: RunConfig, folder: Path, profile: cProfile.Profile | None) -> None:
    """Run it and print what its rounds cost.

    Args:
        run: what to run.
        folder: for its files.
        profile: records all rounds but the first and the last, if given.
    """
    pool = TimedPool()
    session = Session(pool, folder)
    began = time.process_time()
    session.open(run, Storage.from_text(folder / "runs"))
    print(f"opened in {time.process_time() - began:.1f} s; {measure_own_peak().megabytes:.0f} MB", flush=True)
    began = time.process_time()
    session.next_round()
    taken = time.process_time() - began
    print(f"round 1: {taken:.2f} s, of it training {pool.seconds:.2f}", flush=True)
    pool.seconds = 0.0
    began = time.process_time()
    if profile is not None:
        profile.enable()
    for _ in range(run.training.rounds - 2):
        session.next_round()
    if profile is not None:
        profile.disable()
    total, training, rounds = time.process_time() - began, pool.seconds, run.training.rounds - 2
    print(
        f"{total / rounds:.2f} s a round, of it training {training / rounds:.2f}; the rest over training "
        f"{total / training - 1:.2f}; peak {measure_own_peak().megabytes:.0f} MB",
        flush=True,
    )
    began = time.process_time()
    session.next_round()
    print(
        f"the last round, with all records joined: {time.process_time() - began:.1f} s; "
        f"peak {measure_own_peak().megabytes:.0f} MB"
    )


if __name__ == "__main__":
    main()
