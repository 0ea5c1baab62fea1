"""Figures of an arena: accuracy against bytes, and maps of failures.

Shapes: M methods (rows), F families (columns).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, NullFormatter

from fedgrid.tracking.figures.panels import LETTER, Margins, build_legend_entries, create_panels, wrap_names
from fedgrid.tracking.figures.style import FAINT, GRID, PAGE, PaperFigure, Style, choose_styles, paper_style

WELL, MIDDLE, ILL, UNKNOWN = "#FFFFFF", "#F7DDB0", "#E07B39", "#EFEFEF"
"""Colours of a map, from no failure to failure; and of a cell without a result."""
ROW_HEIGHT = 0.155
"""Height of a map's row in inches."""


class Point(NamedTuple):
    """A method's means over families."""

    score: float
    megabytes: float
    """Sent by all clients and the server in a whole run."""
    is_reference: bool


FailureMap = Mapping[str, Mapping[str, tuple[str, str]]]
"""Method -> family -> colour and text of the cell."""
Points = Mapping[str, Point]
"""Method -> its means."""


def find_pareto_front(points: Points) -> list[str]:
    """Find the competitors that no other one beats, cheapest first.

    One beats another if it is at least as accurate for no more bytes, and better in one of them.
    """
    # A reference that knows the groups would dominate every competitor.
    competing = {name: point for name, point in points.items() if not point.is_reference}
    ahead = [
        name
        for name, point in competing.items()
        if not any(
            other.score >= point.score
            and other.megabytes <= point.megabytes
            and (other.score, other.megabytes) != (point.score, point.megabytes)
            for other in competing.values()
        )
    ]
    return sorted(ahead, key=lambda name: competing[name].megabytes)


def draw_pareto(points: Mapping[str, Points]) -> Figure:
    """Draw accuracy over megabytes, a panel for each protocol; the line joins the methods of
    `find_pareto_front`.

    A reference that sends nothing, which a logarithmic axis cannot show, is a dotted line.
    """
    names = list(dict.fromkeys(name for own in points.values() for name in own))
    with paper_style():
        style = choose_styles(names)
        legend = build_legend_entries(style)
        for entry, name in zip(legend, names, strict=True):
            sends = any(own[name].megabytes > 0 for own in points.values() if name in own)
            # The legend shows what the panels have: points without a line of their own, or a dotted line.
            entry.set(linestyle="none") if sends else entry.set(linestyle=":", marker="")
        figure, places = create_panels(
            len(points), 2, 2.3, margins=Margins(left=0.62, head=0.24, gap=0.45), legend=legend
        )
        for axes, (title, own) in zip(places, points.items(), strict=True):
            axes.set_title(title)
            _draw_points(axes, own, style)
        places[0].set_ylabel("personalised accuracy")
    return figure


def _draw_points(axes: Axes, points: Points, style: Mapping[str, Style]) -> None:
    """Draw the points of one panel, with the line of the front and a dotted line for what sends nothing."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("MB sent by all clients and the server")
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    line = [points[name] for name in find_pareto_front(points)]
    sent = [point.megabytes for point in line]
    axes.set_xlim(*_choose_limits([point.megabytes for point in points.values() if point.megabytes > 0]))
    axes.plot(sent, [point.score for point in line], color=FAINT, linewidth=0.8, zorder=1)
    for name, point in points.items():
        if point.megabytes > 0:
            axes.plot(point.megabytes, point.score, **{**style[name].line_settings, "linestyle": "none"})
        else:
            axes.axhline(point.score, color=style[name].colour, linestyle=":", linewidth=0.9)


def _choose_limits(values: Sequence[float]) -> tuple[float, float]:
    """Choose the ticks below and above all values, so that the axis has two at least."""
    ticks = np.outer(10.0 ** np.arange(-6, 10), (1.0, 2.0, 5.0)).ravel()
    least, most = min(values, default=1.0), max(values, default=1.0)
    return float(ticks[ticks < least].max()), float(ticks[ticks > most].min())


def draw_tiles(cells: FailureMap, legend: Mapping[str, str]) -> Figure:
    """Draw a map: a row for each method, a column for each family.

    Args:
        cells: by method and family; a missing cell is drawn as without a result.
        legend: meaning of a colour -> colour.
    """
    methods = list(cells)
    families = list(dict.fromkeys(family for row in cells.values() for family in row))
    labels, left, _ = wrap_names(methods)
    head = 0.25 + LETTER * max(map(len, families), default=0)
    rows = ROW_HEIGHT * max(1, len(methods))
    height = head + rows + 0.05
    with paper_style():
        figure = PaperFigure(figsize=(PAGE, height))
        place = (left / PAGE, 0.05 / height, 1 - (left + 0.05) / PAGE, rows / height)
        axes = figure.add_axes(place)
        _draw_map(axes, cells, methods, families)
        axes.set_yticks(range(len(methods)), labels)
        patches = [
            Patch(facecolor=colour, edgecolor=FAINT, linewidth=0.4, label=words)
            for words, colour in legend.items()
        ]
        placement = {"loc": "upper center", "bbox_to_anchor": (0.5, 1), "borderaxespad": 0.2}
        figure.legend(handles=patches, ncols=len(patches), borderpad=0, **placement)
    return figure


def _draw_map(axes: Axes, cells: FailureMap, methods: Sequence[str], families: Sequence[str]) -> None:
    """Draw the cells of a map with their texts, and lines between them."""
    lines = [[cells.get(method, {}).get(family, (UNKNOWN, "")) for family in families] for method in methods]
    picture_MF = np.array([[to_rgb(colour) for colour, _ in line] for line in lines])
    axes.imshow(picture_MF.reshape(len(methods), -1, 3), aspect="auto", interpolation="none")
    for row, line in enumerate(lines):
        for column, (_, text) in enumerate(line):
            axes.text(column, row, text, ha="center", va="center", fontsize=5.0)
    axes.set_xticks(range(len(families)), families, rotation=90)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks(np.arange(1, len(families)) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, len(methods)) - 0.5, minor=True)
    # Major ticks have the names in the middle of the cells; the lines between cells are at minor ones.
    axes.grid(which="minor", color=GRID, linewidth=0.6)
    axes.tick_params(which="minor", length=0)
    axes.spines[:].set_visible(False)
