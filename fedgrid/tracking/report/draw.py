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
from fedgrid.tracking.report.page import Drawing, Plate

PROCESSES = 2
FEW = 40
"""Up to this many figures one process is as fast: each of two takes as long to import as to draw a dozen."""


def draw(
    plates: Sequence[Plate], folder: Path, drawn: Callable[[int, int], object], drawing: Drawing
) -> None:
    """Write a file `<name>.<format>` of each plate and format into `folder`.

    `drawn` is called with the number of figures so far, and of all.

    Many figures are drawn in spawned processes: a script that calls this needs
    `if __name__ == "__main__":`.
    """
    folder.mkdir()
    if len(plates) <= FEW or _cores() < PROCESSES:
        for number, plate in enumerate(plates, start=1):
            _draw(plate, folder, drawing)
            drawn(number, len(plates))
        return
    pool = ProcessPoolExecutor(PROCESSES, get_context("spawn"), _exit_with_parent)
    try:
        jobs = [pool.submit(_draw, plate, folder, drawing) for plate in plates]
        for number, job in enumerate(as_completed(jobs), start=1):
            job.result()
            drawn(number, len(plates))
    finally:
        pool.shutdown(cancel_futures=True)


def _draw(plate: Plate, folder: Path, drawing: Drawing) -> None:
    try:
        with figures.style_context(*drawing.styles) if drawing.styles else nullcontext():
            figure = plate.draw()
        for suffix in drawing.formats:
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
