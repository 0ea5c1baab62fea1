"""What a command of an analysis shows: its plan, its progress, its results."""

import json
from collections.abc import Mapping, Sequence
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fedgrid.grids.analyses.analysis import Analysis, Job, Summary
from fedgrid.grids.analyses.execute import Ended
from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.tables import choice_table, duration, page_table, roughly
from fedgrid.grids.results.axes import name_of, naming_keys

HEADINGS = {"dataset": "data set", "on": "images of", "hours": "time"}


def show_plan(
    rows: Sequence[Mapping[str, Any]], cores: int, waiting: Sequence[str], *, as_json: bool, console: Console
) -> None:
    """Show the rows of `Analysis.plan`; `waiting` are the runs that are not finished."""
    hours = sum(row.get("hours", 0.0) for row in rows)
    if as_json:
        print(json.dumps({"rows": rows, "hours": hours, "cores": cores, "not_finished": list(waiting)}))
        return
    headings = tuple(HEADINGS.get(key, key.replace("_", " ")) for key in rows[0])
    console.print(choice_table(headings, [tuple(_text(*cell) for cell in row.items()) for row in rows]))
    estimate = (
        f"About {roughly(hours)} on {cores} cores, from a model timed here on random images; a GPU takes "
        "much less. "
    )
    print_plain(console, f"\n{estimate if hours else ''}Nothing was started or written.")


def _text(key: str, value: Any) -> str:
    if key == "hours":
        return roughly(value) if value else "–"
    return f"{value:,}" if isinstance(value, int) else str(value)


COLUMNS = (
    TextColumn("{task.description}", markup=False),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("{task.fields[unit]}", markup=False),
    TimeRemainingColumn(),
    TextColumn("left"),
)


class ProgressView:
    """Shows the progress of jobs for the block of a `with`: a bar a kind of job; in a log a line a job."""

    def __init__(
        self, analysis: Analysis, jobs: Sequence[Job], before: int, console: Console, *, quiet: bool
    ) -> None:
        """Show `jobs`, beside `before` ones that were done already; nothing if `quiet`."""
        self.failures: list[Ended] = []
        self._analysis = analysis
        self._console = console
        self._is_quiet = quiet
        self._has_bars = console.is_terminal and not quiet
        self._jobs = jobs
        self._axes = naming_keys(list({job.config.run_id: job.config for job in jobs}.values()))
        self._ended = 0
        self._before = before
        self._began = perf_counter()
        self._counted = 0
        self._bars = Progress(*COLUMNS, console=console, disable=not self._has_bars)
        self._tasks: dict[str, TaskID] = {}
        for label in dict.fromkeys(map(analysis.label, jobs)):
            total = sum(analysis.size(job) for job in jobs if analysis.label(job) == label)
            text = f"{analysis.unit} of {label}" if label else analysis.name
            self._tasks[label] = self._bars.add_task(text, total=total, unit=analysis.unit)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def done(self, count: int) -> None:
        """Count work of the job under way in this process."""
        self._counted += count
        self._bars.update(self._tasks[self._analysis.label(self._jobs[self._ended])], advance=count)

    def ended(self, ended: Ended) -> None:
        """Count a job that has ended."""
        label = self._analysis.label(ended.job)
        rest, self._counted = self._analysis.size(ended.job) - self._counted, 0
        self._bars.update(self._tasks[label], advance=rest)
        self._ended += 1
        name = f"{name_of(ended.job.config, self._axes)} {label}".rstrip()
        if ended.cause is not None:
            self.failures.append(ended)
            warn(f"{name}: {ended.cause}")
        elif not (self._has_bars or self._is_quiet):
            done, total = self._before + self._ended, self._before + len(self._jobs)
            left = (perf_counter() - self._began) / self._ended * (len(self._jobs) - self._ended)
            print_plain(
                self._console,
                f"{done} of {total}: {name}, {duration(ended.seconds)}; {duration(left)} left",
            )


def show_results(analysis: Analysis, summary: Summary, todo: Sequence[Job], console: Console) -> None:
    """Show the results of an analysis; `todo` are the jobs that were left."""
    for table in summary.tables:
        console.print(page_table(table, console.width))
    for line in summary.lines:
        print_plain(console, line)
    if not todo:
        print_plain(console, f"already {analysis.participle}")
    print_plain(console, summary.last)
