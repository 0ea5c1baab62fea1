"""Times rounds of the Ray engine and of a plain loop alternately, in the same minute."""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

from benchmarks.engine import started
from benchmarks.plain_loop import PlainLoop
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.configuration.complete import complete
from fedgrid.engine.runtime.run.prepare import prepare

SHARED_DATA = Path(__file__).parents[1].parent / "shared" / "data"
NEVER = 10**6
"""So many rounds that the last one, with its tests, is never reached."""


@dataclass(frozen=True)
class Timing:
    """Seconds per round, one value per repetition."""

    engine: list[float]
    plain: list[float]
    samples: int
    """Images in the local training of a round, times epochs."""

    @property
    def ratio(self) -> float:
        """Median of plain / engine seconds: above 1 the engine is faster."""
        return statistics.median(p / e for p, e in zip(self.plain, self.engine, strict=True))


def data_dir() -> Path:
    """Return the folder with MNIST: FEDGRID_DATA, or the shared folder next to this checkout."""
    return Path(os.environ.get("FEDGRID_DATA", SHARED_DATA)).absolute()


def config(draws: int, epochs: int) -> RunConfig:
    """Return 15 clients with about 0.7 x `draws` MNIST images each, never tested."""
    values = {
        "dataset": "mnist",
        "algorithm": "fedavg",
        "split": {"draws": draws},
        "training": {"rounds": NEVER, "local_epochs": epochs},
        "evaluation": {"every": NEVER},
    }
    return complete(values, data_dir())


def compare(run: RunConfig, *, rounds: int, repetitions: int, precision: str = "float32") -> Timing:
    """Time `rounds` rounds of each side, alternately, `repetitions` times; `precision` is the engine's."""
    setup, _ = prepare(run, data_dir())
    training = run.training.model_copy(update={"precision": precision})
    run = run.model_copy(update={"training": training})
    samples = run.training.local_epochs * sum(len(client.train) for client in setup.clients)
    with (
        tempfile.TemporaryDirectory() as storage,
        PlainLoop(setup) as plain,
        started(run, Path(storage), data_dir()) as next_round,
    ):
        sides: list[Callable[[], object]] = [next_round, plain.next_round]
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


def show(timing: Timing, title: str) -> None:
    """Print both sides and their ratio."""
    engine, plain = statistics.median(timing.engine), statistics.median(timing.plain)
    print(title)
    print(f"engine  {engine:.3f} s per round, {timing.samples / engine:,.0f} training samples/s")
    print(f"plain   {plain:.3f} s per round, {timing.samples / plain:,.0f} training samples/s")
    print(f"throughput engine / plain {timing.ratio:.2f}, cost engine / plain {1 / timing.ratio:.2f}")
