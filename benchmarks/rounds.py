"""Compare rounds of the Ray engine with those of a plain two-process PyTorch loop, in turns.

    python -m benchmarks.rounds                         # training samples a second
    python -m benchmarks.rounds --precision bfloat16    # the engine; the loop stays in float32
    python -m benchmarks.rounds --trivial               # the overhead: 8 images a client and one epoch
    python -m benchmarks.rounds --quick                 # tries the benchmark itself

15 clients with about 256 MNIST images each, 3 local epochs, tinyvgg, batch size 32. The engine's rounds
include writing the state and the records.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Before torch is imported, which reads it once: two processes share two cores.
os.environ["OMP_NUM_THREADS"] = "1"

from benchmarks.engine import start_run
from benchmarks.options import build_parser
from benchmarks.plain_loop import PlainLoop
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.prepare import prepare_setup

SHARED_DATA = Path(__file__).parents[1].parent / "shared" / "data"
NEVER = 10**6
"""So many rounds that the last one, with its tests, is never reached."""


@dataclass(frozen=True)
class Timing:
    """Seconds per round of both sides, one value per repetition."""

    engine: list[float]
    plain: list[float]
    samples: int
    """Images in the local training of a round, times epochs."""

    @property
    def ratio(self) -> float:
        """Median of plain / engine seconds: above 1 the engine is faster."""
        return statistics.median(p / e for p, e in zip(self.plain, self.engine, strict=True))


def find_data_dir() -> Path:
    """Find the folder with MNIST: FEDGRID_DATA, or the shared folder next to this checkout."""
    return Path(os.environ.get("FEDGRID_DATA", SHARED_DATA)).absolute()


def build_run(draws: int, epochs: int, dataset: str = "mnist") -> RunConfig:
    """Build a run of 15 clients with about 0.7 x `draws` images each, which are never tested."""
    values = {
        "dataset": dataset,
        "algorithm": "fedavg",
        "split": {"draws": draws},
        "training": {"rounds": NEVER, "local_epochs": epochs},
        "evaluation": {"every": NEVER},
    }
    return complete_config(values, find_data_dir())


def time_sides(run: RunConfig, *, rounds: int, repetitions: int, precision: str = "float32") -> Timing:
    """Time `rounds` rounds of each side, alternately.

    Args:
        run: what both sides train.
        rounds: rounds of a side in a turn.
        repetitions: number of turns.
        precision: of the engine alone.
    """
    setup, _ = prepare_setup(run, find_data_dir())
    # After the setup of the plain loop, which stays in float32.
    training = run.training.model_copy(update={"precision": precision})
    run = run.model_copy(update={"training": training})
    samples = run.training.local_epochs * sum(len(client.train) for client in setup.clients)
    with (
        tempfile.TemporaryDirectory() as storage,
        PlainLoop(setup) as plain,
        start_run(run, Path(storage), find_data_dir()) as next_round,
    ):
        sides: list[Callable[[], object]] = [next_round, plain.next_round]
        # The first round of each starts processes and fills caches.
        for side in sides:
            side()
        times: list[list[float]] = [[], []]
        for _ in range(repetitions):
            for side, seconds in zip(sides, times, strict=True):
                start = time.perf_counter()
                for _ in range(rounds):
                    side()
                seconds.append((time.perf_counter() - start) / rounds)
    return Timing(times[0], times[1], samples)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both sides and their ratio."""
    parser = build_parser(__doc__, "a round of a few digits")
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--trivial", action="store_true", help="rounds of next to no training")
    given = parser.parse_args(arguments)
    if given.quick:
        title, run, rounds, repetitions = "15 x 8 digits, 1 epoch", build_run(12, 1, "digits"), 1, 1
    elif given.trivial:
        title, run, rounds, repetitions = "15 x 8 MNIST images, 1 epoch", build_run(12, 1), 10, 7
    else:
        title, run, rounds, repetitions = "15 x 256 MNIST images, 3 epochs", build_run(370, 3), 1, 4
    timing = time_sides(run, rounds=rounds, repetitions=repetitions, precision=given.precision)
    engine, plain = statistics.median(timing.engine), statistics.median(timing.plain)
    print(f"{title}, the engine in {given.precision}")
    print(f"engine  {engine:.3f} s per round, {timing.samples / engine:,.0f} training samples/s")
    print(f"plain   {plain:.3f} s per round, {timing.samples / plain:,.0f} training samples/s")
    print(f"throughput engine / plain {timing.ratio:.2f}, cost engine / plain {1 / timing.ratio:.2f}")


if __name__ == "__main__":
    main()
