"""The two figures of a run: its temperature, and which client was in which cluster when.

They are written as SVG by ourselves, in milliseconds: matplotlib takes 0.2 to 0.8 s for the two, and there
are thousands of runs. The same records give the same bytes. Shapes: R rounds, K clients.
"""

from dataclasses import dataclass
from math import floor, inf, isfinite, log10
from pathlib import Path

import numpy as np

from tracking import records
from tracking.partitions import clustering_round
from tracking.records import Array, Records
from tracking.svg import Drawing

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Okabe and Ito (2008), which the colour-blind tell apart; further clusters take lighter shades."""
INK, GRID = "#333333", "#DDDDDD"
WIDTH = 560
LEFT, RIGHT, TOP, BOTTOM = 66, 70, 28, 46
"""Pixels around the frame."""
SMALL, MEDIUM = 11, 12.5
"""Sizes of text in pixels."""
ROW = 16
"""Pixels a client in the map."""
NUMBER_WIDTH = 12
"""Pixels that a cluster's number needs in the map."""


@dataclass(frozen=True)
class Frame:
    """Where values lie on the drawing: x grows to the right, y from `bottom` upwards (or down)."""

    height: float
    left: float
    right: float
    bottom: float
    top: float
    """The values at the four edges."""

    def x(self, value: float) -> float:
        """Return the pixel of a value of the horizontal axis."""
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - self.left) / (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the pixel of a value of the vertical axis."""
        return TOP + self.height * (value - self.top) / (self.bottom - self.top)


def write(run_folder: Path) -> list[Path]:
    """Write both figures as svg into `figures` of the run's folder and return their paths.

    Raises:
        RecordsError: if there are no records.
    """
    found = records.read(run_folder)
    folder = run_folder / "figures"
    folder.mkdir(exist_ok=True)
    drawings = {folder / "temperature.svg": temperature(found), folder / "clusters.svg": cluster_map(found)}
    for path, drawing in drawings.items():
        path.write_text(drawing)
    return list(drawings)


def temperature(found: Records) -> str:
    """Draw the temperature of each round, with the clustering round marked."""
    values_R = np.asarray(found.rounds["temperature"], np.float64)
    known = values_R[np.isfinite(values_R)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    margin = 0.12 * (high - low) or 0.5
    frame = Frame(230, found.round_R[0] - 0.5, found.round_R[-1] + 0.5, low - margin, high + margin)
    drawing = Drawing(WIDTH, TOP + frame.height + BOTTOM)
    for value in ticks(frame.bottom, frame.top, 6):
        drawing.line(_across(frame, value), colour=GRID, width=0.8, name="grid")
        drawing.text(
            LEFT - 6, frame.y(value) + 4, f"{value:.10g}", size=SMALL, colour=INK, anchor="end", name="tick"
        )
    _axes(drawing, frame, "temperature")
    _mark_clustering(drawing, frame, found)
    for start, stop in _stretches(np.isfinite(values_R)):
        if isfinite(values_R[start]):
            dots = [(frame.x(found.round_R[index]), frame.y(values_R[index])) for index in range(start, stop)]
            drawing.line(dots, colour=COLOURS[0], width=2, name="curve")
    for number, value in zip(found.round_R, values_R, strict=True):
        if isfinite(value):
            title = f"round {number}: {value:.6g}"
            drawing.dot(frame.x(number), frame.y(value), 3, fill=COLOURS[0], title=title)
    return str(drawing)


def cluster_map(found: Records) -> str:
    """Draw client by round, coloured and numbered by cluster, with lines between the hidden groups."""
    order_K = np.argsort(found.truth_K, kind="stable")
    labels_KR = found.clients["cluster"].T[order_K]
    frame = Frame(
        ROW * len(order_K), found.round_R[0] - 0.5, found.round_R[-1] + 0.5, len(order_K) - 0.5, -0.5
    )
    drawing = Drawing(WIDTH, TOP + frame.height + BOTTOM)
    for row, (client, labels_R) in enumerate(zip(order_K, labels_KR, strict=True)):
        drawing.text(
            LEFT - 6, frame.y(row) + 4, str(client), size=SMALL, colour=INK, anchor="end", name="tick"
        )
        _draw_client(drawing, frame, row, int(client), labels_R, found.round_R)
    _axes(drawing, frame, "client", with_lines=False)
    _mark_groups(drawing, frame, found.truth_K[order_K])
    _mark_clustering(drawing, frame, found, shift=-0.5)
    return str(drawing)


def ticks(low: float, high: float, count: int, *, whole: bool = False) -> list[float]:
    """Return at most `count` round numbers, evenly spaced, from `low` to `high`."""
    steps = (1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)
    least = (high - low) / count
    magnitude = 10.0 ** floor(log10(least))
    step = next(step * magnitude for step in (*steps, inf) if step * magnitude >= least)
    step = max(step, 1.0) if whole else step
    first, last = -floor(-low / step), floor(high / step)
    return [index * step for index in range(first, last + 1)]


def _axes(drawing: Drawing, frame: Frame, name: str, *, with_lines: bool = True) -> None:
    bottom = TOP + frame.height
    for number in ticks(frame.left, frame.right, 11, whole=True):
        x = frame.x(number)
        drawing.line([(x, bottom), (x, bottom + 4)], colour=INK, width=1, name="mark")
        drawing.text(x, bottom + 16, f"{number:g}", size=SMALL, colour=INK, anchor="middle", name="tick")
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawing.text(middle, bottom + 36, "round", size=MEDIUM, colour=INK, anchor="middle", name="axis")
    half = TOP + frame.height / 2
    drawing.text(16, half, name, size=MEDIUM, colour=INK, anchor="middle", upwards=True, name="axis")
    if with_lines:
        corners = [(LEFT, TOP), (LEFT, bottom), (WIDTH - RIGHT, bottom)]
        drawing.line(corners, colour=INK, width=1, name="frame")


def _draw_client(
    drawing: Drawing, frame: Frame, row: int, client: int, labels_R: Array, round_R: Array
) -> None:
    """Draw one bar for each stretch of rounds that the client spent in one cluster."""
    for start, stop in _stretches(labels_R):
        label, first, last = int(labels_R[start]), round_R[start], round_R[stop - 1]
        left, width = frame.x(first - 0.5), frame.x(last + 0.5) - frame.x(first - 0.5)
        title = f"client {client}, rounds {first} to {last}: cluster {label}"
        top = frame.y(row) - 0.44 * ROW
        drawing.bar(left, top, width, 0.88 * ROW, fill=_colour(label), title=title)
        if width >= NUMBER_WIDTH:
            at = left + 4, frame.y(row) + 3.5
            drawing.text(*at, str(label), size=9.5, colour=_contrast(label), name="cluster")


def _mark_groups(drawing: Drawing, frame: Frame, truth_K: Array) -> None:
    for start, stop in _stretches(truth_K):
        if start:
            drawing.line(_across(frame, start - 0.5), colour=INK, width=1.8, name="edge")
        middle = frame.y((start + stop - 1) / 2) + 4
        drawing.text(
            WIDTH - RIGHT + 8, middle, f"group {truth_K[start]}", size=SMALL, colour=INK, name="group"
        )


def _mark_clustering(drawing: Drawing, frame: Frame, found: Records, *, shift: float = 0.0) -> None:
    number = clustering_round(found.clients["cluster"], found.rounds["clustered"])
    if number is None:
        return
    x = frame.x(number + shift)
    anchor = "start" if number <= found.round_R.mean() else "end"
    drawing.line([(x, TOP), (x, TOP + frame.height)], colour=INK, width=1.2, dashes="5 4", name="clustering")
    drawing.text(
        x, TOP - 6, f"clustered in round {number}", size=SMALL, colour=INK, anchor=anchor, name="clustering"
    )


def _across(frame: Frame, value: float) -> list[tuple[float, float]]:
    return [(LEFT, frame.y(value)), (WIDTH - RIGHT, frame.y(value))]


def _stretches(values: Array) -> list[tuple[int, int]]:
    """Return (start, stop) of each stretch of equal values."""
    starts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()]
    return list(zip(starts, [*starts[1:], len(values)], strict=True))


def _colour(label: int) -> str:
    lighter = 1 - 0.55 ** (label // len(COLOURS))
    channels = _channels(COLOURS[label % len(COLOURS)])
    return "#" + "".join(f"{round(255 * (each + (1 - each) * lighter)):02X}" for each in channels)


def _contrast(label: int) -> str:
    red, green, blue = _channels(_colour(label))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.45 else "white"


def _channels(colour: str) -> tuple[float, float, float]:
    red, green, blue = bytes.fromhex(colour[1:])
    return red / 255, green / 255, blue / 255
