"""News of a grid as it runs: bars on a terminal, lines in a log, JSON for programs."""

import json
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from algorithms.registry import ALGORITHMS
from engine.run_config import RunConfig
from grids.launch import Outcome
from grids.tables import ROOMY, result_row
from tracking.scores import RoundScores

NUMBERS_WIDTH = 71
"""Columns of a narrow bar and all that stands right of a run's name."""


class Bars:
    """One bar a run, with its newest numbers."""

    def __init__(self, console: Console, runs: Sequence[RunConfig]) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=_name_column(console.width)),
            BarColumn(bar_width=20 if console.width >= ROOMY else 10),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._names = _short_names(runs)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._progress.stop()

    def start(self, config: RunConfig, rounds_done: int) -> None:
        """Add the run's bar."""
        self._tasks[config.run_id] = self._progress.add_task(
            self._names[config.run_id], total=config.training.rounds, completed=rounds_done, news=""
        )

    def round(self, config: RunConfig, number: int, scores: RoundScores) -> None:
        """Move the run's bar."""
        self._progress.update(self._tasks[config.run_id], completed=number, news=_news(scores))

    def finish(self, outcome: Outcome) -> None:
        """Say so where a run was finished before, or has failed."""
        run_id = outcome.config.run_id
        if outcome.error:
            if run_id not in self._tasks:
                self.start(outcome.config, 0)
            self._progress.update(self._tasks[run_id], news="[red]failed")
            self._progress.stop_task(self._tasks[run_id])
        elif run_id not in self._tasks:
            self.start(outcome.config, outcome.config.training.rounds)
            self._progress.update(self._tasks[run_id], news="finished before")


class Lines:
    """A line a round, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *details: object) -> None:
        """Nothing to take down."""

    def start(self, config: RunConfig, rounds_done: int) -> None:
        """Print which run starts, or goes on from where."""
        self._print(f"{config.name}: " + (f"goes on after round {rounds_done}" if rounds_done else "starts"))

    def round(self, config: RunConfig, number: int, scores: RoundScores) -> None:
        """Print the round."""
        self._print(f"{_title(config)} round {number}/{config.training.rounds} {_news(scores)}")

    def finish(self, outcome: Outcome) -> None:
        """Print how the run ended."""
        self._print(f"{outcome.config.name}: {outcome.error or 'finished'}")

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class JsonLines:
    """A JSON object a line, for programs."""

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *details: object) -> None:
        """Nothing to take down."""

    def start(self, config: RunConfig, rounds_done: int) -> None:
        """Print a `start` event."""
        self._print(event="start", run=config.name, run_id=config.run_id, rounds_done=rounds_done)

    def round(self, config: RunConfig, number: int, scores: RoundScores) -> None:
        """Print a `round` event with all of the round's scores."""
        self._print(event="round", run=config.name, run_id=config.run_id, round=number, **scores.as_dict())

    def finish(self, outcome: Outcome) -> None:
        """Print a `result` event with the row of the results table."""
        self._print(event="result", **result_row(outcome))

    def _print(self, **event: object) -> None:
        print(json.dumps(event), flush=True)


def _name_column(width: int) -> Column:
    """Return a column that leaves room for a run's numbers, however long its name."""
    return Column(no_wrap=True, overflow="ellipsis", max_width=max(8, width - NUMBERS_WIDTH))


def _short_names(runs: Sequence[RunConfig]) -> dict[str, str]:
    """Return run id -> name: the algorithm, and of seed and scenario what is not the same for all."""
    seeds, scenarios = {run.seed for run in runs}, {run.scenario for run in runs}
    return {
        run.run_id: _title(run)
        + (f" s{run.seed}" if len(seeds) > 1 else "")
        + (f" {run.scenario}" if len(scenarios) > 1 else "")
        for run in runs
    }


def _title(config: RunConfig) -> str:
    return ALGORITHMS[config.algorithm["name"]].title


def _news(scores: RoundScores) -> str:
    numbers = scores.as_dict()
    temperature, accuracy = numbers["temperature"], numbers["personalised_accuracy"]
    parts = [f"temp. {temperature:.3f}"] if temperature is not None else []
    parts += [f"clusters {numbers['clusters']}", f"ARI {numbers['ari']:.2f}"]
    return "  ".join(parts + ([f"acc. {accuracy:.3f}"] if accuracy is not None else []))
