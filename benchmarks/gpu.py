"""Measure what a GPU does for fedgrid, in one command of at most nine minutes.

    python -m benchmarks.gpu                        # at most 9 minutes; prints Markdown
    python -m benchmarks.gpu --device cpu --quick    # tries the benchmark itself, in seconds

How many images a second do 1 to 30 client processes train together, in which numbers, batches and ways? What
memory does a client take? Does a run find the same clusters as on the CPU? The most important cells come
first, and each is printed when it is done; what the time did not suffice for, and what failed, is listed.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import TypeVar, get_args

import torch

from benchmarks.gpu_cells import ENGINE, STACKED, Cell, Numbers, Timing, Way
from benchmarks.gpu_crew import STOP_SECONDS, CellFailure, Crew, Start, start_process
from benchmarks.gpu_report import MB, format_report

Answer = TypeVar("Answer")
MODELS = (("tinyvgg", (1, 28, 28)), ("resnet34", (3, 32, 32)))
PROCESSES = (1, 15, 4, 8, 30, 2)
"""Numbers of processes on one GPU; those that say most come first."""
STACKS = (15, 30)
BATCHES = (32, 128)
CELL_SECONDS, CELL_TIMEOUT = 1.5, 90.0
PARTITION_SECONDS, HOURS_SECONDS = 60.0, 30.0
"""Seconds reserved at the end for the partition and for the hours of `paper`."""
DIGIT = Cell("digitnet", (1, 8, 8), images=64)
TINY = (DIGIT, replace(DIGIT, way=STACKED, clients=3))


@dataclass
class Measurements:
    """Results of all cells, and of the two questions that take whole runs."""

    cells: dict[Cell, list[Timing]] = field(default_factory=dict)
    """Cell -> what each of its processes measured."""
    memory: dict[Cell, int] = field(default_factory=dict)
    """Cell -> bytes that a process takes on the device, its CUDA context included; 0 if unknown."""
    failures: dict[Cell | str, str] = field(default_factory=dict)
    """Cell or question -> the reason for which there is no answer."""
    left_out: list[Cell] = field(default_factory=list)
    same_partition: bool | None = None
    """Whether a run on the device finds the clusters of the CPU; None: unknown."""
    hours: float | None = None
    """Hours of the grid on this device; None: unknown."""


def list_cells() -> list[Cell]:
    """List all cells, the most important first: what the presets do, then one change of it."""
    cells = []
    for (model, shape), numbers, batch, way in product(MODELS, get_args(Numbers), BATCHES, get_args(Way)):
        counts = [(1, clients) for clients in STACKS] if way == STACKED else [(n, 1) for n in PROCESSES]
        cells += [Cell(model, shape, numbers, batch, way, *count) for count in counts]
    return sorted(cells, key=_rank_cell)


def _rank_cell(cell: Cell) -> int:
    """Rank a cell: 0 for what the presets do, more for each change and for further numbers of processes."""
    numbers = {"float32": 0, "TF32": 3, "bfloat16": 2}[cell.numbers]
    ways: dict[Way, int] = dict(zip(get_args(Way), (0, 4, 9, 2), strict=True))
    return numbers + ways[cell.way] + 4 * (cell.batch != BATCHES[0]) + (cell.processes not in (1, 15))


def measure_cells(cells: Sequence[Cell], crew: Crew, end: float, seconds: float, device: str) -> Measurements:
    """Measure cells until the time `end`, and list those that the time did not suffice for.

    Args:
        cells: what to measure, the most important first.
        crew: the processes.
        end: as `perf_counter` gives it.
        seconds: how long a cell trains.
        device: as torch names it.
    """
    results, context = Measurements(), None
    if (remaining := end - perf_counter()) > 0:
        context = _record_answer(
            results,
            "the memory of a process without tensors",
            partial(crew.measure_context, partial(_read_free_bytes, device), min(remaining, CELL_TIMEOUT)),
        )
    for cell in cells:
        remaining = end - perf_counter()
        # A cell takes longer than `seconds`: its processes start, and choose their kernels.
        if remaining < 2 * seconds:
            results.left_out.append(cell)
            continue
        timed = _record_answer(
            results, cell, partial(crew.measure_cell, cell, seconds, min(remaining, CELL_TIMEOUT))
        )
        if timed is None:
            continue
        results.cells[cell] = timed
        results.memory[cell] = 0 if context is None else context + max(each.memory for each in timed)
        speed = sum(each.images / each.seconds for each in timed)
        _print_progress(f"{cell}: {speed:,.0f} images/s, {results.memory[cell] / MB:,.0f} MB")
    return results


def measure_runs(results: Measurements, crew: Crew, end: float, grid: str, model: str) -> None:
    """Compare the device's clusters with the CPU's, and project the hours of a grid, until the time `end`.

    In a process of the crew, which can be ended if it takes too long.

    Args:
        results: where the answers go.
        crew: the processes.
        end: as `perf_counter` gives it.
        grid: the preset whose hours are projected.
        model: the model of the run whose clusters are compared.
    """
    remaining = end - perf_counter()
    share = PARTITION_SECONDS / (PARTITION_SECONDS + HOURS_SECONDS)
    results.same_partition = _record_answer(
        results,
        "whether a run finds the same clusters as on the CPU",
        partial(crew.run_single, "compare_partition", model, timeout=share * remaining),
    )
    gains = {name: speed / alone for name, (_, speed, alone) in find_best_engines(results).items()}
    remaining = end - perf_counter()
    results.hours = _record_answer(
        results,
        f"the hours of `{grid}`",
        partial(crew.run_single, "project_hours", grid, gains, timeout=remaining),
    )


def _record_answer(
    results: Measurements, subject: Cell | str, measure: Callable[[], Answer]
) -> Answer | None:
    """Call a measurement; if it fails, print and record the reason, and answer None."""
    try:
        return measure()
    except CellFailure as failure:
        results.failures[subject] = str(failure)
        _print_progress(f"{subject}: {failure}")
        return None


def _print_progress(line: str) -> None:
    """Print progress now, also into a pipe: a time limit may end the benchmark before its report."""
    print(line, file=sys.stderr, flush=True)


def _read_free_bytes(device: str) -> int:
    """Read the free bytes of a GPU, 0 of a CPU."""
    return 0 if device == "cpu" else torch.cuda.mem_get_info()[0]


def find_best_engine(results: Measurements, model: str) -> tuple[Cell, float, float] | None:
    """Find the fewest processes that are nearly the fastest as presets train.

    Returns:
        Their cell, its images/s, and the images/s of one process; None if one process was not measured.
    """
    speeds = {
        cell.processes: (cell, sum(each.images / each.seconds for each in timed))
        for cell, timed in results.cells.items()
        if (cell.model, cell.way, cell.numbers, cell.batch) == (model, ENGINE, "float32", BATCHES[0])
    }
    if 1 not in speeds:
        return None
    fastest = max(speed for _, speed in speeds.values())
    best, speed = next(speeds[count] for count in sorted(speeds) if speeds[count][1] >= 0.95 * fastest)
    return best, speed, speeds[1][1]


def find_best_engines(results: Measurements) -> dict[str, tuple[Cell, float, float]]:
    """Find `find_best_engine` of each model that was measured."""
    models = dict.fromkeys(cell.model for cell in results.cells)
    return {model: best for model in models if (best := find_best_engine(results, model)) is not None}


def run_benchmark(device: str, minutes: float, tiny: bool, start: Start = start_process) -> str:
    """Measure all within the minutes, and format the report.

    Args:
        device: as torch names it.
        minutes: for all of it.
        tiny: whether to measure two cells of the smallest model alone.
        start: how a process is started; tests start threads.
    """
    began = perf_counter()
    end = began + 60 * minutes - STOP_SECONDS
    reserve = min(PARTITION_SECONDS + HOURS_SECONDS, 20 * minutes)
    grid, model = ("quickstart", "digitnet") if tiny else ("paper", "tinyvgg")
    with Crew(device, start, end) as crew:
        cells = TINY if tiny else list_cells()
        results = measure_cells(cells, crew, end - reserve, 0.05 if tiny else CELL_SECONDS, device)
        measure_runs(results, crew, end, grid, model)
    best_cells = {name: cell for name, (cell, _, _) in find_best_engines(results).items()}
    return format_report(device, results, best_cells, grid, perf_counter() - began)


def main(arguments: Sequence[str] | None = None, start: Start = start_process) -> None:
    """Print the report; progress goes to standard error."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda", help="as torch names it")
    parser.add_argument("--minutes", type=float, default=9.0, help="at most so long")
    parser.add_argument("--quick", action="store_true", help="two cells of the smallest model")
    parser.add_argument("--out", type=Path, help="write the report here, too")
    given = parser.parse_args(arguments)
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("no GPU that torch can use; --device cpu --quick tries the benchmark itself")
    text = run_benchmark(given.device, given.minutes, given.quick, start)
    print(text)
    if given.out:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
