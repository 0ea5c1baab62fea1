"""Runs a grid's runs one after the other: rounds from the backend, metrics to MLflow, news to the screen."""

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Protocol

import pyarrow.parquet as pq

from engine.errors import FedgridError, RunError
from engine.records import RoundRecord
from engine.run_config import RunConfig
from engine.run_folder import RunFolder, folder_of
from grids.backend import Backend
from grids.track import RunLog
from tracking import figures
from tracking.scores import RoundScores, RunScores, of_round, of_run


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    config: RunConfig
    folder: Path
    scores: RunScores | None
    """Of a finished run."""
    seconds: float
    """Training, testing, clustering and saving of all its rounds, in whatever session they were run."""
    error: str | None


class Reporter(Protocol):
    """Shows the user what happens."""

    def start(self, config: RunConfig, rounds_done: int) -> None:
        """A run starts, or goes on."""

    def round(self, config: RunConfig, number: int, scores: RoundScores) -> None:
        """A round is done and kept; `number` counts from 1."""

    def finish(self, outcome: Outcome) -> None:
        """A run is finished, has failed, or was finished before."""


def launch(
    runs: Sequence[RunConfig], storage: Path, backend: Backend, log: RunLog, reporter: Reporter
) -> list[Outcome]:
    """Run what is not finished yet; one failing run does not stop the others."""
    outcomes = []
    for config in runs:
        folder = RunFolder(folder_of(storage, config), config)
        if folder.is_done and log.has(config):
            outcome = _finished(config, folder.path)
        else:
            outcome = _run(config, folder, storage, backend, log, reporter)
        reporter.finish(outcome)
        outcomes.append(outcome)
    return outcomes


def all_done(runs: Sequence[RunConfig], storage: Path) -> bool:
    """Return whether every run has finished all of its rounds."""
    return all(RunFolder(folder_of(storage, run), run).is_done for run in runs)


def forget(runs: Sequence[RunConfig], storage: Path, log: RunLog) -> None:
    """Delete what is kept of these runs, on disk and in MLflow."""
    for config in runs:
        log.forget(config)
        rmtree(folder_of(storage, config), ignore_errors=True)


def _run(
    config: RunConfig, folder: RunFolder, storage: Path, backend: Backend, log: RunLog, reporter: Reporter
) -> Outcome:
    try:
        with folder.locked():
            try:
                _all_rounds(config, folder.path, storage, backend, log, reporter)
            except KeyboardInterrupt:
                log.close(folder.path, "KILLED")
                raise
            except FedgridError as error:
                cause = str(error)
            except Exception as error:
                # A fault of ours, or of a library: the grid's other runs need not suffer for it.
                folder.log(traceback.format_exc())
                cause = f"{type(error).__name__}: {error}; see log.txt in {folder.path}"
            else:
                return _finished(config, folder.path)
            log.close(folder.path, "FAILED")
    except RunError as error:
        cause = str(error)
    return Outcome(config, folder.path, None, _seconds(folder.path), cause)


def _all_rounds(
    config: RunConfig, folder: Path, storage: Path, backend: Backend, log: RunLog, reporter: Reporter
) -> None:
    rounds_done = backend.open(config, storage)
    reporter.start(config, rounds_done)
    log.open(config, folder)
    for number, record in _rounds(backend, rounds_done, config.training.rounds):
        scores = of_round(record.round, record.clients)
        log.round(number, scores)
        reporter.round(config, number, scores)
    figures.write(folder)
    log.close(folder, "FINISHED")


def _rounds(backend: Backend, rounds_done: int, rounds: int) -> Iterator[tuple[int, RoundRecord]]:
    """Yield each remaining round; the next one is under way while the caller looks at it."""
    result = backend.submit_round() if rounds_done < rounds else None
    for number in range(rounds_done + 1, rounds + 1):
        assert result is not None
        record = result()
        result = backend.submit_round() if number < rounds else None
        yield number, record


def _finished(config: RunConfig, folder: Path) -> Outcome:
    return Outcome(config, folder, of_run(folder), _seconds(folder), None)


def _seconds(folder: Path) -> float:
    path = folder / "timings.parquet"
    if not path.exists():
        return 0.0
    return float(sum(pq.read_table(path, columns=["seconds"])["seconds"].to_pylist()))
