"""Run one run from its last checkpoint to its end, and yield an event for each step of it."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import FedgridError, RunError
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.engine.runtime.run.run_folder import RunFolder
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.outcome import write_scores

if TYPE_CHECKING:
    from fedgrid.engine.runtime.run.session import Session


@dataclass(frozen=True)
class RunStarted:
    """A run has started, or resumed after `rounds_done` rounds."""

    rounds_done: int


@dataclass(frozen=True)
class RunPreparing:
    """A new run trains its encoder, or reads a stored one, before it starts."""

    encoder: str
    """Description of what the encoder is trained on."""


@dataclass(frozen=True)
class RoundDone:
    """A round is finished; `number` counts from 1."""

    number: int
    timing: Mapping[str, Any]
    """The round's row of `timings.parquet`."""


@dataclass(frozen=True)
class RunFinished:
    """All rounds are finished and on disk, and the scores are written."""


@dataclass(frozen=True)
class RunStopped:
    """The run has stopped after a round because it was requested; all its rounds are on disk."""


@dataclass(frozen=True)
class RunFailed:
    """The run has failed and would fail again if retried; its rounds on disk remain valid."""

    cause: str
    """Reason in one line."""


RunEvent: TypeAlias = RunPreparing | RunStarted | RoundDone | RunFinished | RunStopped | RunFailed


def run_to_end(
    session: "Session",
    config: RunConfig,
    storage: Storage,
    should_stop: Callable[[], bool],
    until: int | None = None,
) -> Iterator[RunEvent]:
    """Run the remaining rounds of a run: all of them, up to round `until`, or until a stop is requested.

    Args:
        session: what trains and clusters; it may have had other runs before.
        config: the run.
        storage: where it is stored.
        stop_asked: whether a stop is requested; called before each round.
        until: last round; default None: the configuration's.

    Yields:
        An event for each step.

    Raises:
        FedgridError: if the run cannot go on. The rounds on disk remain valid.
    """
    with _log_errors(config, storage):
        message = build_algorithm(config).message()
        encoder = None if RunFolder(storage, config).rounds_done or message is None else message.encoder
    if encoder is not None and encoder.training_summary:
        yield RunPreparing(encoder.training_summary)
    with _log_errors(config, storage):
        # Reads the last valid state, possibly one of fewer rounds than are recorded: a damaged state is set
        # aside.
        rounds_done = session.open(config, storage)
    yield RunStarted(rounds_done)
    for number in range(rounds_done + 1, config.training.rounds + 1):
        if config.training.stop_after is not None and RunFolder(storage, config).is_done:
            break
        if storage.retry_call(should_stop) or number > (until or number):
            # Rounds are written while the next one trains: the last writes must end before the run counts as
            # stopped.
            session.wait_for_writes()
            yield RunStopped()
            return
        record = session.next_round()
        yield RoundDone(number, record.timing)
    with _log_errors(config, storage):
        # A run counts as finished once its scores are there, so they come last.
        write_scores(config, storage)
    yield RunFinished()


@contextmanager
def _log_errors(config: RunConfig, storage: Storage) -> Iterator[None]:
    """Write an unexpected error of the block to the run's log, as a session does for its rounds."""
    try:
        yield
    except FedgridError:
        raise
    except Exception:
        folder = RunFolder(storage, config)
        with suppress(OSError, RunError):  # As on a full disk: the error itself matters more.
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.log(f"failed: {traceback.format_exc()}")
        raise
