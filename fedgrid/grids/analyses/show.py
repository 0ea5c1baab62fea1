"""What a command of an analysis shows: its plan, its progress, and its results."""

import json
from collections.abc import Sequence
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.storage.hints import format_command
from fedgrid.grids.analyses.analysis import Analysis, Job, JobResult, Summary
from fedgrid.grids.analyses.execute import JobEnd
from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.display.tables import format_duration
from fedgrid.grids.display.text_table import TextTable, build_text_table
from fedgrid.grids.results.axes import find_naming_keys, format_run_name
from fedgrid.grids.results.grid_folder import GridFolder

COLUMNS = (
    TextColumn("{task.description}", markup=False),
    BarColumn(),
    MofNCompleteColumn(),
    TimeRemainingColumn(),
    TextColumn("left"),
)


def show_plan(
    analysis: Analysis,
    jobs: Sequence[Job],
    todo: Sequence[Job],
    waiting: Sequence[str],
    *,
    as_json: bool,
    console: Console,
) -> None:
    """Show how many jobs there are by data set and slot, and how many of them are done.

    Args:
        analysis: The analysis.
        jobs: All jobs.
        todo: Those that are left to do.
        waiting: Names of the runs that are not finished.
        as_json: Whether JSON is printed instead of a table.
        console: Where the table is shown.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for job in jobs:
        key = job.config.dataset, analysis.slot(job) or ""
        row = rows.setdefault(key, {"dataset": key[0], "part": key[1], "runs": 0, "analysed": 0})
        row["runs"] += 1
        row["analysed"] += job not in todo
    if as_json:
        print(json.dumps({"rows": [*rows.values()], "not_finished": list(waiting)}))
        return
    cells = [(row["dataset"], row["part"], str(row["runs"]), str(row["analysed"])) for row in rows.values()]
    console.print(TextTable(("data set", analysis.name, "runs", "analysed"), cells, numbers=(2, 3)))
    print_plain(console, "\nNothing was started or written.")


class ProgressView:
    """Shows the progress of jobs within a `with` block: a bar in a terminal, in a log a line for each job."""

    def __init__(
        self, analysis: Analysis, jobs: Sequence[Job], before: int, console: Console, *, quiet: bool
    ) -> None:
        """Prepare the view.

        Args:
            analysis: The analysis.
            jobs: Jobs that are to be done.
            before: Number of further jobs that were done already.
            console: Where progress is shown.
            quiet: Whether nothing is shown.
        """
        self.failures: list[JobEnd] = []
        self._analysis = analysis
        self._console = console
        self._is_quiet = quiet
        # Names show only what differs between these runs.
        self._axes = find_naming_keys(list({job.config.run_id: job.config for job in jobs}.values()))
        self._ended = 0
        self._before = before
        self._total = len(jobs)
        self._began = perf_counter()
        self._has_bar = console.is_terminal and not quiet
        self._bar = Progress(*COLUMNS, console=console, disable=not self._has_bar)
        self._task = self._bar.add_task(analysis.name, total=self._total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def count_end(self, end: JobEnd) -> None:
        """Count and show a job that has ended."""
        self._bar.update(self._task, advance=1)
        self._ended += 1
        name = f"{format_run_name(end.job.config, self._axes)} {self._analysis.slot(end.job) or ''}".rstrip()
        if end.cause is not None:
            self.failures.append(end)
            warn(f"{name}: {end.cause}")
        elif not (self._has_bar or self._is_quiet):
            done, total = self._before + self._ended, self._before + self._total
            # By the mean of the jobs so far, which includes that several are done at the same time.
            left = (perf_counter() - self._began) / self._ended * (self._total - self._ended)
            print_plain(
                self._console,
                f"{done} of {total}: {name}, {format_duration(end.seconds)}; {format_duration(left)} left",
            )


def collect_facts(analysis: Analysis, results: Sequence[JobResult], summary: Summary) -> dict[str, Any]:
    """Collect what `--json` prints of results: the metrics of each job, and the lines of the summary."""
    rows = [
        {
            "run": result.run.name,
            "run_id": result.run.run_id,
            "algorithm": result.run.algorithm,
            "part": analysis.slot(result.job) or "",
            **analysis.finite_metrics(result),
        }
        for result in results
    ]
    return {"rows": rows, "lines": list(summary.lines)}


def show_results(
    analysis: Analysis,
    summary: Summary,
    jobs: Sequence[Job],
    todo: Sequence[Job],
    grid: GridFolder,
    console: Console,
) -> None:
    """Show the results of an analysis, and how to see them in the report.

    Args:
        analysis: The analysis.
        summary: Tables and lines.
        jobs: All jobs.
        todo: Those that the command had to do.
        grid: Folder of the grid.
        console: Where results are shown.
    """
    for table in summary.tables:
        console.print(build_text_table(table))
    for line in summary.lines:
        print_plain(console, line)
    if not todo:
        print_plain(console, "already analysed")
    if any(analysis.slot(job) is not None for job in jobs):
        plugin = () if active.find_analysis_digest(analysis) is None else ("--plugin", "FILE")
        print_plain(console, f"In the report:  {format_command(grid.storage, 'report', grid.name, *plugin)}")
