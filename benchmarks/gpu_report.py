"""The Markdown of `benchmarks.gpu`, to paste into docs/evidence/performance.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

import torch

from benchmarks.gpu_cells import STACKED, Cell, Numbers, Way
from fedgrid.engine.runtime.clients.machine import driver

if TYPE_CHECKING:
    from benchmarks.gpu import Measured

MB = 1e6
SHOWN = 12
"""Cells that were left out, by name; of more the number."""


def markdown(device: str, found: Measured, best: Mapping[str, Cell], grid: str, seconds: float) -> str:
    """Return the report of all that was measured."""
    lines = [f"Measured on {_named(device)} in {seconds:.0f} s by `python -m benchmarks.gpu`.", ""]
    lines += _table(found)
    lines.append("")
    if found.same_partition is not None:
        clusters = "the same clusters" if found.same_partition else "OTHER CLUSTERS"
        lines.append(f"- A run on digits finds {clusters} there as on the CPU, in every round.")
    lines += [_advice(cell, found, device) for cell in best.values()]
    lines += [line for cell in best.values() if (line := _stacking(cell, found))]
    if found.hours is not None:
        lines.append(
            f"- `fedgrid run {grid}` on this device alone, without a round cache: about {_time(found.hours)}."
        )
    elif not any(isinstance(what, str) and grid in what for what in found.failed):
        lines.append(f"- No hours of `{grid}`: one of its models was not measured.")
    lines += [f"- Failed: {cell}: {why}." for cell, why in found.failed.items()]
    if found.left_out:
        names = "; ".join(map(str, found.left_out[:SHOWN]))
        more = len(found.left_out) - SHOWN
        lines.append(f"- Left out for want of time: {names}{f'; and {more} more' if more > 0 else ''}.")
    return "\n".join(lines)


def _table(found: Measured) -> list[str]:
    """Return a row a model, batch, numbers and way, a column a number of clients: images/s, MB a process."""
    counts = sorted({cell.processes * cell.clients for cell in found.cells})
    rows: dict[tuple[str, str, Numbers, Way], dict[int, Cell]] = {}
    for cell in found.cells:
        size = "x".join(map(str, cell.shape))
        key = (f"{cell.model} {size}", str(cell.batch), cell.numbers, cell.way)
        rows.setdefault(key, {})[cell.processes * cell.clients] = cell
    head = ["model", "batch", "numbers", "way", *(f"{n} client{'s' * (n > 1)}" for n in counts), "MB"]
    lines = [_row(head), _row(["---"] * len(head))]
    for key in sorted(rows):
        cells = rows[key]
        speeds = [f"{_speed(found, cells[n]):,.0f}" if n in cells else "" for n in counts]
        memory = max(found.memory[cell] for cell in cells.values()) / MB
        lines.append(_row([*key, *speeds, f"{memory:,.0f}" if memory else "not told"]))
    return [
        "Images trained a second, all clients together: one client a process, or `stacked` in one process. "
        "MB is the largest process, its CUDA context included.",
        "",
        *lines,
    ]


def _speed(found: Measured, cell: Cell) -> float:
    return sum(each.images / each.seconds for each in found.cells[cell])


def _advice(cell: Cell, found: Measured, device: str) -> str:
    text = f"- {cell.model}: no number of processes is much faster than {cell.processes}"
    if device == "cpu":
        return f"{text}."
    whole = torch.cuda.get_device_properties(0).total_memory
    hundredths = max(100 // cell.processes, ceil(100 * found.memory[cell] / whole))
    return f"{text}: `--gpus-per-actor {hundredths / 100:g}`."


def _time(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"


def _stacking(best: Cell, found: Measured) -> str:
    """Return how the fastest stack compares with the best processes, all else alike; empty if unknown."""
    alike = replace(best, way=STACKED, processes=1)
    stacks = [cell for cell in found.cells if replace(cell, clients=alike.clients) == alike]
    if not stacks:
        return ""
    fastest = max(stacks, key=lambda cell: _speed(found, cell))
    times = _speed(found, fastest) / _speed(found, best)
    return (
        f"- {best.model}: `training.stacked={fastest.clients}` in one process is {times:.2f} times as fast."
    )


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _named(device: str) -> str:
    if device == "cpu":
        return f"the CPU (torch {torch.__version__})"
    return f"{torch.cuda.get_device_name(0)} (torch {torch.__version__}, driver {driver()})"
