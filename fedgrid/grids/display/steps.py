"""Show what a command is doing while its user waits: one line on a terminal, in place, with a clock."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from fedgrid.grids.display.plain_console import print_plain


class StepDisplay:
    """Shows the present step of a command, within a `with`; at the end its line disappears.

    Without a terminal nothing is shown, or a line for each step.
    """

    def __init__(self, console: Console, *, as_lines: bool = False, quiet: bool = False) -> None:
        """Create the display.

        Args:
            console: where steps are shown.
            as_lines: whether each step is printed as a line if the console is no terminal.
            quiet: whether nothing is shown at all, as with `--json`.
        """
        self._console = console
        self._is_live = console.is_interactive and not quiet
        self._as_lines = as_lines and not self._is_live and not quiet
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove_line()

    def begin_step(self, text: str) -> None:
        """Begin a step; it ends the one before."""
        self._text = text
        if self._as_lines:
            print_plain(self._console, f"{text} ...")
        if self._is_live:
            self._remove_tasks()
            # A new task, so that its clock starts at zero.
            self._progress.add_task(text, total=None)
            self._progress.start()

    def show_count(self, done: int, total: int) -> None:
        """Show how much of the present step is done."""
        for task in self._progress.task_ids:
            self._progress.update(task, description=f"{self._text}: {done} of {total}")

    def remove_line(self) -> None:
        """Remove the line, so that something else can be shown in its place; `begin_step` shows a new one."""
        if self._is_live:
            self._progress.stop()
            self._remove_tasks()

    def _remove_tasks(self) -> None:
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
