"""The writer of a run's rounds: it writes while the next ones train; several together, if they are short."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf
from threading import Event, Lock
from time import monotonic

from fedgrid.engine.federation.round.record import RoundRecord
from fedgrid.engine.federation.round.run_state import RunState

PAUSE = 1.0
"""Least seconds from the start of a write to that of the next: a write may take longer than a round. So much
training a kill costs, in addition to the round under way."""
SMALL_STATE_BYTES = 1 << 20
"""Bytes of a round's models up to which rounds wait for others: memory may not hold many larger ones."""

Round = tuple[RoundRecord, RunState]


class RoundWriter:
    """Hands the rounds of one run to `save`, in order, in a thread.

    After a write that has failed nothing more is written; its error is raised by the next `add_round` or
    `wait_for_writes`.
    """

    def __init__(self, save: Callable[[Sequence[Round]], None]) -> None:
        self._save = save
        self._thread = ThreadPoolExecutor(1)
        self._lock = Lock()
        self._rounds: list[Round] = []
        """Rounds that no write has taken yet."""
        self._hurry = Event()
        """Set if the next write is not to wait for more rounds."""
        self._began = -inf
        self.writing: Future[None] | None = None
        """The write of the last round that was added, None if it is on disk."""

    def add_round(self, record: RoundRecord, run_state: RunState) -> None:
        """Write a round soon.

        Raises:
            RunError: an earlier one could not be written.
        """
        # 1. A large round waits until the one before is on disk, so that at most one is in memory; a small
        # one only takes the result of a write that is done, and with it its error.
        is_small = sum(model.nbytes for model in run_state.state.models) <= SMALL_STATE_BYTES
        if not is_small or (self.writing is not None and self.writing.done()):
            self.wait_for_writes()
        # 2. Queue it. A write is submitted for the first round of a batch only: it takes what has come until
        # it begins.
        with self._lock:
            self._rounds.append((record, run_state))
            if len(self._rounds) == 1:
                self._hurry.clear()
                self.writing = self._thread.submit(self._write_batch, self.writing)
        # 3. A large round is not to wait for others.
        if not is_small:
            self._hurry.set()

    def wait_for_writes(self) -> None:
        """Wait until every round is on disk.

        Raises:
            RunError: one could not be written.
        """
        self._hurry.set()
        writing, self.writing = self.writing, None
        if writing is not None:
            writing.result()

    def _write_batch(self, before: Future[None] | None) -> None:
        """Write all rounds that have come, at least `PAUSE` after the last write began."""
        if before is not None:
            # Raises the error of the write before, so that no round is written after a gap.
            before.result()
        self._hurry.wait(self._began + PAUSE - monotonic())
        self._began = monotonic()
        with self._lock:
            rounds, self._rounds = self._rounds, []
        self._save(rounds)
