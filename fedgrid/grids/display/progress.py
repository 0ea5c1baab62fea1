"""Show the progress of a running grid: a live table on a terminal, lines in a log, JSON for programs."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.spinner import Spinner
from rich.table import Column
from rich.text import Text

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.display.plain_console import print_plain
from fedgrid.grids.display.tables import build_result_row, format_duration, format_pace
from fedgrid.grids.display.tally import Tally
from fedgrid.grids.results.axes import format_run_name
from fedgrid.tracking.scoring.run import Run

BAR_WIDTH = 64
"""Columns that a narrow bar and the numbers to its right need; what is left is for the run's name."""
WIDE_TERMINAL = 106
"""Width of the terminal from which bars are twice as long."""

STOP_NOTICE = "stopping after the rounds under way; Ctrl-C again stops at once"
"""Line that is shown after the first Ctrl-C."""


class LaunchView:
    """Shows what happens in a launch, within a `with`; subclasses differ in the form."""

    shows_rounds = True
    """Whether scores of rounds are shown; if not, they are not even read."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        """Do nothing: there is no live view to end."""

    def show_tally(self, tally: Tally) -> None:
        """Show the progress of the whole grid; called about once a second. Does nothing by default."""


class ProgressBars(LaunchView):
    """Live view: a line for the whole grid and a bar for each run in progress, finished runs above."""

    def __init__(self, console: Console, runs: Sequence[RunConfig], varied: Sequence[str] = ()) -> None:
        self._progress = Progress(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(
                    no_wrap=True, overflow="ellipsis", max_width=max(8, console.width - BAR_WIDTH)
                ),
            ),
            BarColumn(bar_width=20 if console.width >= WIDE_TERMINAL else 10),
            MofNCompleteColumn(),
            TextColumn("{task.fields[scores]}", markup=False),
            console=console,
        )
        self._headline = Spinner("dots")
        self._live = Live(
            Group(self._progress, self._headline), console=console, refresh_per_second=4, transient=True
        )
        self._name_run = _make_namer(runs, varied)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._live.stop()

    def show_encoder(self, config: RunConfig, encoder: str) -> None:
        """Add a bar which says that the run's encoder is trained first."""
        self.show_start(config, 0)
        self._progress.update(self._tasks[config.run_id], scores=f"encoder first: {encoder}")

    def show_start(self, config: RunConfig, rounds_done: int) -> None:
        """Add the run's bar."""
        # The bar of the encoder has no count of rounds; the run's own takes its place.
        if (preparing := self._tasks.pop(config.run_id, None)) is not None:
            self._progress.remove_task(preparing)
        self._tasks[config.run_id] = self._progress.add_task(
            self._name_run(config), total=config.training.rounds, completed=rounds_done, scores=""
        )

    def show_round(self, config: RunConfig, number: int, scores: Mapping[str, Any]) -> None:
        """Advance the run's bar."""
        self._progress.update(self._tasks[config.run_id], completed=number, scores=_format_scores(scores))

    def show_retry(self, config: RunConfig, cause: str, attempt: int) -> None:
        """Remove the run's bar until it starts again."""
        self._end_bar(config, "retry  ", "yellow", f" {self._name_run(config)}: {cause}")

    def show_result(self, config: RunConfig, run: Run) -> None:
        """Print the run above the bars, as finished or failed."""
        if run.cause:
            self._end_bar(config, "failed ", "red", f" {self._name_run(config)}: {run.cause}")
        else:
            self._end_bar(config, "done   ", "green", f" {self._name_run(config)}  {_format_result(run)}")

    def show_stop(self, config: RunConfig) -> None:
        """Print the run above the bars, as stopped."""
        self._end_bar(config, "stopped", "yellow", f" {self._name_run(config)}")

    def announce_stop(self) -> None:
        """Announce that the grid stops after the rounds under way."""
        self._live.console.print(Text(STOP_NOTICE, "yellow"))

    def show_tally(self, tally: Tally) -> None:
        """Update the line for the whole grid."""
        self._headline.update(text=Text(format_headline(tally)))

    def _end_bar(self, config: RunConfig, mark: str, style: str, text: str) -> None:
        """Remove the run's bar, if it has one, and print a line above the bars."""
        task = self._tasks.pop(config.run_id, None)
        if task is not None:
            self._progress.remove_task(task)
        # Also without a bar: a run may fail before it starts.
        self._live.console.print(Text.assemble((mark, style), text))


class ProgressLines(LaunchView):
    """View for logs: a line for each round, or without `by_round` only for the start and end of each run."""

    def __init__(self, console: Console, varied: Sequence[str] = (), *, by_round: bool = True) -> None:
        self._console = console
        self._varied = varied
        self.shows_rounds = by_round

    def show_encoder(self, config: RunConfig, encoder: str) -> None:
        """Print that the run's encoder is trained first."""
        self._print_line(config, f": trains its encoder first, unless the storage has it ({encoder})")

    def show_start(self, config: RunConfig, rounds_done: int) -> None:
        """Print that a run starts, or after which round it resumes."""
        self._print_line(config, ": " + (f"continues after round {rounds_done}" if rounds_done else "starts"))

    def show_round(self, config: RunConfig, number: int, scores: Mapping[str, Any]) -> None:
        """Print the round."""
        if self.shows_rounds:
            self._print_line(config, f" round {number}/{config.training.rounds} {_format_scores(scores)}")

    def show_retry(self, config: RunConfig, cause: str, attempt: int) -> None:
        """Print why the run is retried."""
        self._print_line(config, f": failed ({cause}), is retried")

    def show_result(self, config: RunConfig, run: Run) -> None:
        """Print how the run ended."""
        self._print_line(config, f": {run.cause or f'finished {_format_result(run)}'}")

    def show_stop(self, config: RunConfig) -> None:
        """Print that the run has stopped."""
        self._print_line(config, ": stopped")

    def announce_stop(self) -> None:
        """Print that the grid stops after the rounds under way."""
        print_plain(self._console, STOP_NOTICE)

    def _print_line(self, config: RunConfig, text: str) -> None:
        print_plain(self._console, format_run_name(config, self._varied) + text)


class JsonEvents(LaunchView):
    """View for programs: one JSON object on each line.

    It keeps the standard output of the moment when it is created: a launch redirects `sys.stdout` later,
    because Ray prints there.
    """

    def __init__(self, axes: Sequence[str] = ()) -> None:
        """Write to standard output; `axes` are the grid's further axes, which a `result` event has too."""
        self._output = sys.stdout
        self._axes = axes

    def show_encoder(self, config: RunConfig, encoder: str) -> None:
        """Print an `encoder` event."""
        self._print_run_event("encoder", config, trained_on=encoder)

    def show_start(self, config: RunConfig, rounds_done: int) -> None:
        """Print a `show_start` event."""
        self._print_run_event("start", config, rounds_done=rounds_done)

    def show_round(self, config: RunConfig, number: int, scores: Mapping[str, Any]) -> None:
        """Print a `show_round` event with all of the round's scores."""
        self._print_run_event("round", config, round=number, **scores)

    def show_retry(self, config: RunConfig, cause: str, attempt: int) -> None:
        """Print a `show_retry` event."""
        self._print_run_event("retry", config, cause=cause, attempt=attempt)

    def show_result(self, config: RunConfig, run: Run) -> None:
        """Print a `result` event with the row of the results table."""
        self._write_line({"event": "result", **build_result_row(run, self._axes)})

    def show_stop(self, config: RunConfig) -> None:
        """Print a `show_stop` event."""
        self._print_run_event("stop", config)

    def announce_stop(self) -> None:
        """Print a `announce_stop` event."""
        self._write_line({"event": "stopping"})

    def show_search(self, result: Mapping[str, object]) -> None:
        """Print a `show_search` event with the result of a search."""
        self._write_line({"event": "search", **result})

    def print_event(self, name: str, **details: object) -> None:
        """Print an event that belongs to no single run."""
        self._write_line({"event": name, **details})

    def _print_run_event(self, event: str, config: RunConfig, **details: object) -> None:
        self._write_line({"event": event, "run": config.name, "run_id": config.run_id, **details})

    def _write_line(self, event: Mapping[str, object]) -> None:
        # Flushed line by line: a program that reads the pipe sees each event when it happens.
        print(json.dumps(event), file=self._output, flush=True)


def format_headline(tally: Tally) -> str:
    """Format the progress of a grid in one line: counts of runs, pace, time left."""
    counts = (
        f"{tally.done} of {tally.total} runs done, {len(tally.running)} running, {tally.num_waiting} waiting"
    )
    if tally.failed:
        counts += f", {tally.failed} failed"
    if not tally.elapsed_seconds:
        return f"{counts}; the first actors are starting"
    left = tally.seconds_left
    so_far = f"{counts}; {format_pace(tally.rounds_per_second)}"
    return so_far if left is None else f"{so_far}, {format_duration(left)} left"


def describe_work(tally: Tally) -> str:
    """Describe the work of a launch, as in `105 rounds, 41 of them computed, in 12 s`."""
    computed = (
        f", {tally.rounds_computed:.0f} of them computed," if tally.rounds_computed < tally.rounds else ""
    )
    taken = f" after {tally.rounds_reused} of finished runs with fewer rounds" if tally.rounds_reused else ""
    return f"{tally.rounds} rounds{computed} in {format_duration(tally.elapsed_seconds)}{taken}"


def _make_namer(runs: Sequence[RunConfig], varied: Sequence[str]) -> Callable[[RunConfig], str]:
    """Build a function that names a run by its algorithm and by what differs among `runs`."""
    seeds, scenarios = {run.seed for run in runs}, {run.scenario for run in runs}

    def name_run(run: RunConfig) -> str:
        return (
            str(run.algorithm.name)
            + (f" s{run.seed}" if len(seeds) > 1 else "")
            + (f" {run.scenario}" if len(scenarios) > 1 else "")
            # A run's full name is too long for a bar: the parts above replace it, its further axes follow.
            + format_run_name(run, varied).removeprefix(run.name)
        )

    return name_run


def _format_scores(numbers: Mapping[str, Any]) -> str:
    """Format the scores that fit a line, without those that the run does not have."""
    shown = {
        "temperature": "temp. {:.3f}",
        "clusters": "clusters {}",
        "ari": "ARI {:.2f}",
        "personalised_accuracy": "acc. {:.3f}",
        "personalised_r2": "R2 {:.3f}",
        "personalised_r2_pooled": "pooled {:.3f}",
    }
    values = {name: numbers.get(name) for name in shown}
    return "  ".join(shown[name].format(value) for name, value in values.items() if value is not None)


def _format_result(run: Run) -> str:
    """Format a finished run's last scores, its time and why it stopped early, if it did."""
    stopped = f"  {run.stopped}" if run.stopped else ""
    return f"{_format_scores(run.scores)}  {format_duration(run.times['seconds'] or 0.0)}{stopped}"
