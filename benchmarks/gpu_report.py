"""The Markdown report of `benchmarks.gpu`, to paste into docs/evidence/performance.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import torch

from benchmarks.gpu_cells import STACKED, Cell, Numbers, Way
from fedgrid.engine.runtime.clients.machine import find_driver_version

if TYPE_CHECKING:
    from benchmarks.gpu import Measurements

MB = 1e6
SHOWN = 12
"""Cells that were left out are listed up to this number; of further ones the count."""


def format_report(
    device: str, results: Measurements, best_cells: Mapping[str, Cell], grid: str, seconds: float
) -> str:
    """Format the report of all that was measured.

    Args:
        device: as torch names it.
        results: what was measured.
        best_cells: model -> the cell that `find_best_engine` found.
        grid: the preset whose hours were projected.
        seconds: how long all of it took.
    """
    lines = [f"Measured on {_name_device(device)} in {seconds:.0f} s by `python -m benchmarks.gpu`.", ""]
    lines += _format_table(results)
    lines.append("")
    if results.same_partition is not None:
        clusters = "the same clusters" if results.same_partition else "OTHER CLUSTERS"
        lines.append(f"- A run on digits finds {clusters} there as on the CPU, in every round.")
    lines += [_format_advice(cell, results, device) for cell in best_cells.values()]
    lines += [line for cell in best_cells.values() if (line := _compare_stacking(cell, results))]
    if results.hours is not None:
        hours = _format_hours(results.hours)
        lines.append(f"- `fedgrid run {grid}` on this device alone, without a round cache: about {hours}.")
    elif not any(isinstance(subject, str) and grid in subject for subject in results.failures):
        lines.append(f"- No hours of `{grid}`: one of its models was not measured.")
    lines += [f"- Failed: {cell}: {reason}." for cell, reason in results.failures.items()]
    if results.left_out:
        names = "; ".join(map(str, results.left_out[:SHOWN]))
        more = len(results.left_out) - SHOWN
        lines.append(f"- Left out for want of time: {names}{f'; and {more} more' if more > 0 else ''}.")
    return "\n".join(lines)


def _format_table(results: Measurements) -> list[str]:
    """Format images/s: a row for model, batch, numbers and way, a column a number of clients."""
    counts = sorted({cell.processes * cell.clients for cell in results.cells})
    rows: dict[tuple[str, str, Numbers, Way], dict[int, Cell]] = {}
    for cell in results.cells:
        size = "x".join(map(str, cell.shape))
        key = (f"{cell.model} {size}", str(cell.batch), cell.numbers, cell.way)
        rows.setdefault(key, {})[cell.processes * cell.clients] = cell
    head = ["model", "batch", "numbers", "way", *(f"{n} client{'s' * (n > 1)}" for n in counts), "MB"]
    lines = [_format_row(head), _format_row(["---"] * len(head))]
    for key in sorted(rows):
        cells = rows[key]
        speeds = [f"{_compute_speed(results, cells[n]):,.0f}" if n in cells else "" for n in counts]
        memory = max(results.memory[cell] for cell in cells.values()) / MB
        lines.append(_format_row([*key, *speeds, f"{memory:,.0f}" if memory else "not measured"]))
    return [
        "Images trained a second, all clients together: one client a process, or `stacked` in one process. "
        "MB is the largest process, its CUDA context included.",
        "",
        *lines,
    ]


def _compute_speed(results: Measurements, cell: Cell) -> float:
    """Compute the images/s of all processes of a cell together."""
    return sum(each.images / each.seconds for each in results.cells[cell])


def _format_advice(cell: Cell, results: Measurements, device: str) -> str:
    """Format the line on the number of processes, with the option that sets it."""
    text = f"- {cell.model}: no number of processes is much faster than {cell.processes}"
    if device == "cpu":
        return f"{text}."
    total_memory = torch.cuda.get_device_properties(0).total_memory
    # With a share below that of the memory Ray would put more processes on the GPU than fit.
    hundredths = max(100 // cell.processes, ceil(100 * results.memory[cell] / total_memory))
    return f"{text}: `--gpus-per-actor {hundredths / 100:g}`."


def _format_hours(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"


def _compare_stacking(best: Cell, results: Measurements) -> str:
    """Compare the fastest stack with the best processes, all else alike; empty if unknown."""
    alike = replace(best, way=STACKED, processes=1)
    stacks = [cell for cell in results.cells if replace(cell, clients=alike.clients) == alike]
    if not stacks:
        return ""
    fastest = max(stacks, key=lambda cell: _compute_speed(results, cell))
    times = _compute_speed(results, fastest) / _compute_speed(results, best)
    return (
        f"- {best.model}: `training.stacked={fastest.clients}` in one process is {times:.2f} times as fast."
    )


def _format_row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _name_device(device: str) -> str:
    """Name the device, with the versions of torch and of its driver."""
    if device == "cpu":
        return f"the CPU (torch {torch.__version__})"
    return f"{torch.cuda.get_device_name(0)} (torch {torch.__version__}, driver {find_driver_version()})"
