"""Figures drawn into files, in two processes where that is sooner done."""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread

from fedgrid.tracking import figures
from fedgrid.tracking.report.page import Plate

FORMATS = ("svg", "png")
PROCESSES = 2
FEW = 8
"""Figures up to which another process is not worth its start: about two seconds of imports."""


def draw(plates: Sequence[Plate], folder: Path, drawn: Callable[[int], object]) -> None:
    """Write `<name>.svg` and `<name>.png` of each plate into `folder`; call `drawn` with how many there are.

    Many figures are drawn by processes that are spawned: a script that calls this keeps its statements
    under `if __name__ == "__main__":`.
    """
    folder.mkdir()
    if len(plates) <= FEW or _cores() < PROCESSES:
        for number, plate in enumerate(plates, start=1):
            _draw(plate, folder)
            drawn(number)
        return
    pool = ProcessPoolExecutor(PROCESSES, get_context("spawn"), _leave_with_parent)
    try:
        jobs = [pool.submit(_draw, plate, folder) for plate in plates]
        for number, job in enumerate(as_completed(jobs), start=1):
            job.result()
            drawn(number)
    finally:
        pool.shutdown(cancel_futures=True)


def _draw(plate: Plate, folder: Path) -> None:
    try:
        figure = plate.draw()
        for suffix in FORMATS:
            figures.save(figure, folder / f"{plate.name}.{suffix}")
    except Exception as error:
        error.add_note(f"while drawing {plate.name}")
        raise


def _leave_with_parent() -> None:
    """Leave Ctrl-C to the parent, and end with it even if it was killed: a pool's processes would wait."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None, "only spawned processes come here"

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def _cores() -> int:
    """Return on how many cores this process may run."""
    # macOS has no affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
