"""Measure the round cache: the cost of a hit, the cost of storing a round, and the size on disk.

    python -m benchmarks.round_cache [--quick]

15 clients with about 256 MNIST images each, 3 local epochs, tinyvgg, every model tested on 1,000 images of
the server, all clients in this process. The paper's rounds have ten times as many images, so that the cache's
share is a tenth of the one measured here. The same rounds are computed alternately without a cache and into
an empty one; then another run takes them from the cache. The cost of storing is a ratio of processor time,
because it is smaller than the variation of wall-clock time.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

# Before torch is imported, which reads it once: one thread, so that processor time is comparable.
os.environ["OMP_NUM_THREADS"] = "1"

from benchmarks.options import build_parser
from benchmarks.paper_scale import ENTRY_BYTES, count_entries
from benchmarks.rounds import find_data_dir
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.round_cache.files import CacheOptions, StoredFile, list_entries
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage

DRAWS, SERVER_IMAGES = 370, 1000
"""About 256 training images a client."""
ROUNDS = 3


@dataclass(frozen=True)
class Seconds:
    """Seconds of one round, by what they count."""

    work: float
    """Wall-clock time of the round itself."""
    total: float
    """Wall-clock time with writing the run's records and state."""
    processor: float
    """Processor time of this process in `whole`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the same rounds without a cache, into an empty one and from it, and print seconds and bytes."""
    parser = build_parser(__doc__, "a few digits in place of MNIST")
    quick: bool = parser.parse_args(arguments).quick
    rounds = ROUNDS
    with tempfile.TemporaryDirectory() as without, tempfile.TemporaryDirectory() as folder:
        storage = Storage.from_text(folder)
        # The last round has tests: one round more than are run. Another number of rounds is another run of
        # the same shared prefix, which finds these rounds in the cache.
        off = open_session(build_run(quick, rounds + 1), Storage.from_text(without), None)
        on = open_session(build_run(quick, rounds + 1), storage, CacheOptions())
        plain, storing = time_in_turns([off, on], rounds)
        reader = open_session(build_run(quick, rounds + 2), storage, CacheOptions())
        (reading,) = time_in_turns([reader], rounds, trained=0)
        entries = list_entries(storage)
    print_seconds(plain, storing, reading)
    print_disk(entries, rounds, "digits" if quick else "mnist")


def build_run(quick: bool, rounds: int) -> RunConfig:
    """Build a BNC run, whose rounds all sessions have in common."""
    draws, server_images = (40, 50) if quick else (DRAWS, SERVER_IMAGES)
    values = {
        "dataset": "digits" if quick else "mnist",
        "algorithm": "fedavg",
        "split": {"draws": draws, "server_images": server_images},
        "training": {"rounds": rounds},
    }
    return complete_config(values, find_data_dir())


def open_session(run: RunConfig, storage: Storage, cache: CacheOptions | None) -> Session:
    """Open a session with its own clients, ready for the run's first round."""
    session = Session(InProcessPool(), find_data_dir(), cache=cache)
    session.open(run, storage)
    return session


def time_in_turns(sessions: Sequence[Session], rounds: int, *, trained: int = 15) -> list[list[Seconds]]:
    """Run `rounds` rounds in every session, and time each of them.

    The order of the sessions alternates from round to round.

    Args:
        sessions: open sessions of the same rounds.
        rounds: how many to run.
        trained: clients that each round trains; 0 if all come from the cache.

    Raises:
        RuntimeError: a round has trained another number of clients, and is not the one to measure.
    """
    seen: list[list[Seconds]] = [[] for _ in sessions]
    for number in range(rounds):
        order = range(len(sessions)) if number % 2 else reversed(range(len(sessions)))
        for position in order:
            start, busy = time.perf_counter(), time.process_time()
            record = sessions[position].next_round()
            total, processor = time.perf_counter() - start, time.process_time() - busy
            if record.timing["trained_clients"] != trained:
                raise RuntimeError(f"{record.timing['trained_clients']} clients were trained, not {trained}")
            seen[position].append(Seconds(record.timing["seconds"], total, processor))
    return seen


def print_seconds(plain: Sequence[Seconds], storing: Sequence[Seconds], reading: Sequence[Seconds]) -> None:
    """Print medians and ratios; the first round, which has warming up in it, is left out."""
    print(f"{'':24}{'round s':>10}{'with files':>12}{'processor':>12}")
    sides = {"computed, no cache": plain, "computed into the cache": storing, "taken from the cache": reading}
    for title, seconds in sides.items():
        columns = zip(*((each.work, each.total, each.processor) for each in seconds[1:]), strict=True)
        work, total, processor = map(statistics.median, columns)
        print(f"{title:24}{work:10.4f}{total:12.4f}{processor:12.4f}")
    taken = statistics.median(t.work / s.work for t, s in zip(reading[1:], storing[1:], strict=True))
    cost = statistics.median(s.processor / p.processor for s, p in zip(storing[1:], plain[1:], strict=True))
    print(f"taken / computed {taken:.3%}, into the cache / no cache {cost:.3f}")


def print_disk(entries: Sequence[StoredFile], rounds: int, dataset: str) -> None:
    """Print how many bytes a round of the shared prefix leaves."""
    states = sum(entry.size for entry in entries if entry.is_state) / rounds
    others = sum(entry.size for entry in entries if not entry.is_state) / rounds
    model = ENTRY_BYTES * count_entries(dataset)
    print(
        f"a round keeps {states / 1e3:.1f} kB of states, {states / model:.3f} of the model's "
        f"{model / 1e3:.1f} kB, and {others / 1e3:.1f} kB of statistics"
    )


if __name__ == "__main__":
    main()
