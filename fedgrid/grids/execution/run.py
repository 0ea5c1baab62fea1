"""Run a grid for `fedgrid run`: find what is left to do, launch it, and show the results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedgrid.grids.display.plain_console import print_plain, warn
from fedgrid.grids.display.progress import JsonEvents
from fedgrid.grids.display.summary import print_finished, show_summary
from fedgrid.grids.display.tables import build_failure_table
from fedgrid.grids.execution.launch import launch_grid
from fedgrid.grids.following.trackers import Trackers
from fedgrid.grids.presets.axis_keys import join_keys
from fedgrid.grids.results.axes import find_naming_keys
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished, trust_times
from fedgrid.grids.trackers.tracker import TrackedGrid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from fedgrid.engine.federation.configuration.run_config import RunConfig
    from fedgrid.engine.runtime.storage.storage import Storage
    from fedgrid.grids.execution.watch import LaunchResult
    from fedgrid.grids.planning.options import LaunchOptions
    from fedgrid.grids.presets.grid import Grid


@dataclass(frozen=True)
class Launcher:
    """Launches or plans the grids of a command, and prints the results."""

    storage: Storage
    options: LaunchOptions
    console: Console

    def run_unfinished(
        self,
        grid: Grid,
        only: Sequence[RunConfig] | None = None,
        *,
        shows_scores: bool = False,
        confirm: Callable[[str], str] | None = None,
    ) -> LaunchResult:
        """Run the unfinished runs of a grid, or only some of its runs, and show those that failed.

        Args:
            grid: the grid.
            only: the runs; default None: all.
            shows_scores: whether the results are shown at the end, too; default False.
            ask: confirms that finished runs are superseded, as for `GridFolder.check_source`; default None:
                no question.

        Raises:
            ConfigError, DataError: for wrong settings, missing data or a refusal, before anything is written.
            RunError: if the grid as a whole cannot continue.
        """
        storage, options = self.storage, self.options
        axes = join_keys(grid.varied, find_naming_keys(grid.runs))
        at_uri = storage.uri is not None and not options.in_process
        tracked = TrackedGrid(grid.name, storage, axes, text=grid.text, at_uri=at_uri)
        trackers = Trackers(tracked, warn, options.trackers)
        storage.pull_marks()
        chosen = grid.runs if only is None else only
        GridFolder(storage, grid.name).check_source(grid, confirm)
        with trust_times(storage):
            todo, done = self._split_by_finished(chosen)
            result = launch_grid(grid, todo, done, storage, options, trackers, self.console)
            if options.as_json:
                print_finished(done, storage, grid.varied)
            elif shows_scores:
                where = trackers.collect_lines()
                show_summary(grid, storage, where, result.failures, result.tally, self.console)
            elif result.failures:
                self.console.print(build_failure_table(result.failures))
            return result

    def print_plan(self, grid: Grid) -> None:
        """Print what `run_unfinished` would do with a grid, after the same checks.

        Raises:
            ConfigError, DataError, RunError: as `run_unfinished` before anything is written, and as
            `show_plan`.
        """
        storage, options = self.storage, self.options
        storage.pull_marks()
        GridFolder(storage, grid.name).check_source(grid)
        with trust_times(storage):
            todo, done = self._split_by_finished(grid.runs)
            # Only to check that each tracker exists and can be reached, as a launch does.
            Trackers(TrackedGrid(grid.name, storage), warn, options.trackers)
            # Imports torch, which a driver of actors does without.
            from fedgrid.grids.planning.dry_run import show_plan

            show_plan(grid, todo, done, storage, options, self.console)

    def print_event(self, name: str, **details: object) -> None:
        """Print an event that belongs to no single run; does nothing unless the output is JSON."""
        if self.options.as_json:
            JsonEvents().print_event(name, **details)

    def print_lines(self, *lines: str) -> None:
        """Print lines of text, unless the output is JSON."""
        for line in lines if not self.options.as_json else ():
            print_plain(self.console, line)

    def _split_by_finished(self, runs: Sequence[RunConfig]) -> tuple[list[RunConfig], list[RunConfig]]:
        """Split runs into those that are to be done and those that are finished."""
        todo = [run for run in runs if self.options.fresh or not is_finished(self.storage, run)]
        waiting = {run.run_id for run in todo}
        return todo, [run for run in runs if run.run_id not in waiting]
