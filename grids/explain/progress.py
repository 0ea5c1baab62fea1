"""The progress of `fedgrid explain`: a bar and the time left for each distribution; in a log a line a job."""

from collections.abc import Sequence
from time import perf_counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from fedgrid.grids.display.plain import print_plain, warn
from fedgrid.grids.display.tables import duration
from fedgrid.grids.explain.execute import Ended
from fedgrid.grids.explain.job import Job
from fedgrid.grids.results.axes import name_of, naming_keys

COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("images,"),
    TextColumn("{task.fields[done]}/{task.fields[jobs]} runs"),
    TimeRemainingColumn(),
    TextColumn("left"),
)


def images_of(job: Job) -> int:
    """Return how many images a job explains; as published, of a run with one cluster."""
    return job.settings.images * (1 if job.settings.as_published else job.config.clients)


class Shown:
    """Shows the progress of jobs for the block of a `with`."""

    def __init__(self, jobs: Sequence[Job], before: int, console: Console, *, quiet: bool) -> None:
        """Show `jobs`, beside `before` ones that were done already; nothing if `quiet`."""
        self.failures: list[Ended] = []
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
        for on in dict.fromkeys(job.settings.on for job in jobs):
            of_on = [job for job in jobs if job.settings.on == on]
            total = sum(map(images_of, of_on))
            self._tasks[on] = self._bars.add_task(f"images of {on}", total=total, jobs=len(of_on), done=0)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def explained(self, images: int) -> None:
        """Count images of the job under way in this process."""
        self._counted += images
        self._bars.update(self._tasks[self._jobs[self._ended].settings.on], advance=images)

    def ended(self, ended: Ended) -> None:
        """Count a job that has ended."""
        on = ended.job.settings.on
        task = self._bars.tasks[self._tasks[on]]
        rest, self._counted = images_of(ended.job) - self._counted, 0
        self._bars.update(task.id, advance=rest, done=task.fields["done"] + 1)
        self._ended += 1
        name = f"{name_of(ended.job.config, self._axes)} {on}"
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
