"""A run's way from its last kept round to its end, as a stream of news for whoever watches."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from fedgrid.engine.records import RoundRecord
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.run_folder import folder_of
from fedgrid.engine.storage.atomic import write_text
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.results.outcome import SCORES
from fedgrid.tracking import figures
from fedgrid.tracking.scoring.scores import RoundScores, of_round, of_run


@dataclass(frozen=True)
class Started:
    """A run starts, or goes on after `rounds_done` rounds."""

    rounds_done: int


@dataclass(frozen=True)
class Round:
    """A round is done; `number` counts from 1."""

    number: int
    scores: RoundScores
    timing: Mapping[str, Any]


@dataclass(frozen=True)
class Finished:
    """All rounds are done and kept, scores and figures written."""


@dataclass(frozen=True)
class Stopped:
    """The run was asked to stop after a round; all of its rounds are kept."""


News: TypeAlias = Started | Round | Finished | Stopped


class Runner(Protocol):
    """What takes a run forward: a `Session`, or a `Server` with its actors."""

    def open(self, config: RunConfig, storage: Storage) -> int:
        """Start or continue a run; return the number of rounds it has already."""

    def next_round(self) -> RoundRecord:
        """Run and keep one round."""

    def settle(self) -> None:
        """Wait until the last round is written."""


def take_forward(
    runner: Runner,
    config: RunConfig,
    storage: Storage,
    stop_asked: Callable[[], bool],
    until: int | None = None,
) -> Iterator[News]:
    """Run what is left of a run, round by round, to its end, to round `until`, or until asked to stop.

    Raises:
        FedgridError: if it cannot go on; what is kept is good.
    """
    rounds_done = runner.open(config, storage)
    yield Started(rounds_done)
    for number in range(rounds_done + 1, config.training.rounds + 1):
        if stop_asked() or number > (until or number):
            runner.settle()
            yield Stopped()
            return
        record = runner.next_round()
        yield Round(number, of_round(record.round, record.clients), record.timing)
    conclude(config, storage)
    yield Finished()


def conclude(config: RunConfig, storage: Storage) -> None:
    """Write the figures and the final scores of a run whose records are whole.

    Raises:
        RecordsError: if there are none.
        RunError: if they cannot be sent to the storage.
    """
    folder = folder_of(storage.root, config)
    figures.write(folder)
    write_text(folder / SCORES, json.dumps(of_run(folder).as_dict(), indent=2, sort_keys=True) + "\n")
    written: list[Path] = [*sorted((folder / "figures").iterdir()), folder / SCORES]
    storage.push(*(str(path.relative_to(storage.root)) for path in written))
