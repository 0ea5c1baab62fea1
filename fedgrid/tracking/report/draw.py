"""Draws figures into files, in two processes if that is faster."""

import os
import resource
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from fedgrid.tracking import figures
from fedgrid.tracking.figures.style import OwnStyle
from fedgrid.tracking.report.page import FORMATS, Plate

PROCESSES = 2
FEW = 8
"""Up to this many figures one process is faster: a second one takes about two seconds to import."""


def draw(
    plates: Sequence[Plate], folder: Path, drawn: Callable[[int], object], styles: Sequence[OwnStyle] = ()
) -> None:
    """Write `<name>.svg` and `<name>.png` of each plate into `folder`; call `drawn` with the number so far.

    `styles` are the user's, as of `figures.style_context`.

    Many figures are drawn in spawned processes: a script that calls this needs
    `if __name__ == "__main__":`.
    """
    folder.mkdir()
    if len(plates) <= FEW or _cores() < PROCESSES:
        for number, plate in enumerate(plates, start=1):
            _draw(plate, folder, styles)
            drawn(number)
        return
    pool = ProcessPoolExecutor(PROCESSES, get_context("spawn"), _exit_with_parent)
    try:
        jobs = [pool.submit(_draw, plate, folder, styles) for plate in plates]
        for number, job in enumerate(as_completed(jobs), start=1):
            job.result()
            drawn(number)
    finally:
        pool.shutdown(cancel_futures=True)


def _draw(plate: Plate, folder: Path, styles: Sequence[OwnStyle]) -> None:
    try:
        with figures.style_context(*styles) if styles else nullcontext():
            figure = plate.draw()
        for suffix in FORMATS:
            figures.save(figure, folder / f"{plate.name}.{suffix}")
    except Exception as error:
        error.add_note(f"while drawing {plate.name}")
        raise


def _exit_with_parent() -> None:
    """Ignore Ctrl-C, which the parent handles, and exit when the parent does, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None, "only spawned processes come here"

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def _cores() -> int:
    """Return the number of cores that this process may use.

    One where its address space is limited (`ulimit -v`): a pool that cannot start a thread waits for ever.
    """
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return 1
    # macOS has no affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
