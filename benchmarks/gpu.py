"""What a GPU does for fedgrid: its first day in one command.

    python -m benchmarks.gpu                        # at most 9 minutes; prints Markdown
    python -m benchmarks.gpu --device cpu --tiny    # tries the benchmark itself, in seconds

Does a run find the same clusters as on the CPU? How many images a second do 1 to 30 client processes train
together, in which numbers, batches and ways? What memory does a client take? The most important cells are
measured first; what the time did not suffice for, and what failed, is listed.
"""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import get_args

import torch

from benchmarks.gpu_cells import ENGINE, STACKED, Cell, Numbers, Timed, Way
from benchmarks.gpu_crew import CellFailed, Crew, Start, as_process
from benchmarks.gpu_report import markdown
from benchmarks.gpu_runs import projected_hours, same_partition

MODELS = (("tinyvgg", (1, 28, 28)), ("resnet34", (3, 32, 32)))
PROCESSES = (1, 15, 4, 8, 30, 2)
"""Of one GPU; the most telling first."""
STACKS = (15, 30)
BATCHES = (32, 128)
CELL_SECONDS, CELL_TIMEOUT = 1.5, 90.0
RESERVE = 30.0
"""Seconds at the end for the hours of `paper`."""
DIGIT = Cell("digitnet", (1, 8, 8), images=64)
TINY = (DIGIT, replace(DIGIT, way=STACKED, clients=3))


@dataclass
class Measured:
    """What came out."""

    cells: dict[Cell, list[Timed]] = field(default_factory=dict)
    """Cell -> what each of its processes measured."""
    memory: dict[Cell, int] = field(default_factory=dict)
    """Cell -> bytes that a process takes on the device, its CUDA context included."""
    failed: dict[Cell, str] = field(default_factory=dict)
    left_out: list[Cell] = field(default_factory=list)


def all_cells() -> list[Cell]:
    """Return all, the most important first: what the presets do, then one change of it."""
    cells = []
    for (model, shape), numbers, batch, way in product(MODELS, get_args(Numbers), BATCHES, get_args(Way)):
        counts = [(1, clients) for clients in STACKS] if way == STACKED else [(n, 1) for n in PROCESSES]
        cells += [Cell(model, shape, numbers, batch, way, *count) for count in counts]
    return sorted(cells, key=_unimportance)


def _unimportance(cell: Cell) -> int:
    """Return 0 for what the presets do; far from it, or an odd number of processes, is more."""
    numbers = {"float32": 0, "TF32": 3, "bfloat16": 2}[cell.numbers]
    ways = dict(zip(get_args(Way), (0, 4, 9, 2), strict=True))
    return numbers + ways[cell.way] + 4 * (cell.batch != BATCHES[0]) + (cell.processes not in (1, 15))


def measure(cells: Sequence[Cell], crew: Crew, end: float, seconds: float, device: str) -> Measured:
    """Measure cells until the time `end`."""
    found = Measured()
    before = _free(device)
    with suppress(CellFailed):  # Then every cell says why.
        crew.grow(1)
    context = before - _free(device)
    for cell in cells:
        left = end - perf_counter()
        if left < 2 * seconds:
            found.left_out.append(cell)
            continue
        try:
            timed = crew.measure(cell, seconds, min(left, CELL_TIMEOUT))
        except CellFailed as failure:
            found.failed[cell] = str(failure)
            continue
        found.cells[cell] = timed
        found.memory[cell] = context + max(each.memory for each in timed)
        print(f"{cell}: {sum(each.images / each.seconds for each in timed):,.0f} images/s", file=sys.stderr)
    return found


def _free(device: str) -> int:
    """Return the free bytes of a GPU, 0 of a CPU."""
    return 0 if device == "cpu" else torch.cuda.mem_get_info()[0]


def best_engine(found: Measured, model: str) -> tuple[Cell, float, float] | None:
    """Return the fewest processes that are nearly the fastest as presets train, their images/s and one's."""
    speeds = {
        cell.processes: (cell, sum(each.images / each.seconds for each in timed))
        for cell, timed in found.cells.items()
        if (cell.model, cell.way, cell.numbers, cell.batch) == (model, ENGINE, "float32", BATCHES[0])
    }
    if 1 not in speeds:
        return None
    fastest = max(speed for _, speed in speeds.values())
    best, speed = next(speeds[count] for count in sorted(speeds) if speeds[count][1] >= 0.95 * fastest)
    return best, speed, speeds[1][1]


def run(device: str, minutes: float, tiny: bool, start: Start = as_process) -> str:
    """Measure all within the minutes; return the report."""
    began = perf_counter()
    end = began + 60 * minutes
    same = same_partition(device, "digitnet" if tiny else "tinyvgg")
    cells = TINY if tiny else all_cells()
    with Crew(device, start) as crew:
        found = measure(cells, crew, end - min(RESERVE, 30 * minutes), 0.05 if tiny else CELL_SECONDS, device)
    models = dict.fromkeys(cell.model for cell in cells)
    best = {model: each for model in models if (each := best_engine(found, model)) is not None}
    gains = {model: speed / alone for model, (_, speed, alone) in best.items()}
    grid = "quickstart" if tiny else "paper"
    budget = 0.2 if tiny else min(RESERVE, max(5.0, end - perf_counter()))
    hours = projected_hours(grid, device, gains, budget)
    best_cells = {model: cell for model, (cell, _, _) in best.items()}
    return markdown(device, same, found, best_cells, grid, hours, perf_counter() - began)


def main(arguments: Sequence[str] | None = None, start: Start = as_process) -> None:
    """Print the report; progress goes to the standard error output."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="as torch names it")
    parser.add_argument("--minutes", type=float, default=9.0, help="at most so long")
    parser.add_argument("--tiny", action="store_true", help="two cells of the smallest model")
    parser.add_argument("--out", type=Path, help="write the report here, too")
    given = parser.parse_args(arguments)
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("no GPU that torch can use; --device cpu --tiny tries the benchmark itself")
    text = run(given.device, given.minutes, given.tiny, start)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
