"""Figures of panels: axes at fixed places in inches, one legend for all, and texts of empty panels.

Fixed places spare the layout engine, which would take half of the time of a figure; drawing grid lines
without ticks saves time too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.figures.style import COLUMN, FAINT, GRID, PAGE, SMALL, PaperFigure, Style
from fedgrid.tracking.scoring.study import format_split_name

LETTER = 0.059
"""Mean width of a letter, in inches."""
LINE = 0.115
"""Height of a line of text, in inches."""
HANDLE = 0.45
"""Width of the line before a legend entry and of the space after the entry, in inches."""
MAX_LETTERS = 30
"""Letters of a name that fit in one line."""
NO_RUN = "no run is finished"
FIFTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Margins:
    """Inches around the panels and between them."""

    left: float = 0.5
    right: float = 0.1
    head: float = 0.34
    """Height above the panels, for the two lines of a title."""
    foot: float = 0.36
    gap: float = 0.14
    row_gap: float = 0.14


def create_panels(
    count: int,
    columns: int,
    height: float | Sequence[float],
    *,
    margins: Margins = Margins(),
    legend: Sequence[Artist] = (),
) -> tuple[Figure, list[Axes]]:
    """Create a figure and its panels, row by row, with the legend above them.

    There is at least one panel, with the reason why it is empty. A figure of one column of panels is as wide
    as a column of a paper, others are as wide as a page.

    Args:
        count: number of panels.
        columns: largest number of panels side by side.
        height: of a panel in inches, or of each row.
        margins: space around the panels and between them, in inches.
        legend: its entries, none by default.
    """
    count = max(1, count)
    columns = max(1, min(columns, count))
    rows = ceil(count / columns)
    width = COLUMN if columns == 1 else PAGE
    top = _compute_legend_height(legend, width)
    heights = [height] * rows if isinstance(height, float | int) else height
    total = top + margins.head + sum(heights) + (rows - 1) * margins.row_gap + margins.foot
    panel = (width - margins.left - margins.right - (columns - 1) * margins.gap) / columns
    figure = PaperFigure(figsize=(width, total))
    if legend:
        figure.legend(
            handles=list(legend),
            loc="upper center",
            bbox_to_anchor=(0.5, 1),
            ncols=_count_entries_per_line(legend, width),
            borderaxespad=0.3,
            borderpad=0,
            columnspacing=1.4,
            handlelength=2.2,
            handletextpad=0.5,
            labelspacing=0.35,
        )
    places = []
    for row, column in (divmod(number, columns) for number in range(count)):
        left = margins.left + column * (panel + margins.gap)
        foot = total - top - margins.head - sum(heights[: row + 1]) - row * margins.row_gap
        axes = figure.add_axes((left / width, foot / total, panel / width, heights[row] / total))
        # 0.2 inches from the x axis to its label, 0.13 from the figure's edge to the label of the y axis.
        axes.xaxis.set_label_coords(0.5, -0.2 / heights[row])
        axes.yaxis.set_label_coords((0.13 - margins.left) / panel, 0.5)
        places.append(axes)
    return figure, places


def _compute_legend_height(legend: Sequence[Artist], width: float) -> float:
    """Compute the height of the legend in inches."""
    if not legend:
        return 0.0
    heights = [LINE * (str(entry.get_label()).count("\n") + 1) + 0.04 for entry in legend]
    # matplotlib distributes the entries over columns like this: the first columns have one more.
    columns = np.array_split(np.array(heights), _count_entries_per_line(legend, width))
    return 0.03 + float(max(column.sum() for column in columns))


def _count_entries_per_line(legend: Sequence[Artist], width: float) -> int:
    """Count the entries in a line: all if they fit, else as many as columns of the longest entry."""
    lengths = [max(map(len, str(entry.get_label()).split("\n"))) for entry in legend]
    if sum(HANDLE + LETTER * length for length in lengths) <= width:
        return len(legend)
    return max(1, int(width / (HANDLE + LETTER * max(lengths))))


def build_legend_entries(styles: Mapping[str, Style]) -> list[Line2D]:
    """Build the legend's entries: an algorithm's line with its marker."""
    return [
        Line2D([], [], label=fill(name, MAX_LETTERS), **style.line_settings) for name, style in styles.items()
    ]


def wrap_names(names: Sequence[str]) -> tuple[list[str], float, float]:
    """Wrap names, and compute their width and the height of a row in inches."""
    labels = [fill(name, MAX_LETTERS) for name in names]
    longest = max((len(line) for label in labels for line in label.split("\n")), default=0)
    num_lines = max((label.count("\n") + 1 for label in labels), default=1)
    return labels, 0.16 + LETTER * longest, 0.05 + LINE * num_lines


def write_reason(axes: Axes, reason: str) -> None:
    """Write the reason why a panel is empty into it."""
    axes.set_xticks([])
    axes.set_xlabel("")
    note: dict[str, Any] = {"ha": "center", "va": "center", "color": FAINT, "backgroundcolor": "white"}
    axes.text(0.5, 0.5, fill(reason, 22), transform=axes.transAxes, **note)


def set_split_title(axes: Axes, split: str) -> None:
    """Set the split as the title of a panel, in two lines to fit a quarter of a page."""
    axes.set_title(format_split_name(split).replace(" ", "\n"))


def label_row(axes: Axes, text: str) -> None:
    """Label a row of panels at the right of its last panel."""
    axes.text(1.04, 0.5, text, transform=axes.transAxes, rotation=270, ha="left", va="center")


def set_up_rounds(axes: Axes, round_R: Array) -> None:
    """Set up the x axis for rounds."""
    axes.set_xlabel("round")
    axes.set_xlim(round_R[0] - 0.5, round_R[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))


def share_y(row: Sequence[Axes], high: float, ticks: Sequence[float], label: str) -> None:
    """Give a row of panels a common y axis from 0, drawn at the first panel, and grid lines in all.

    Args:
        row: the panels.
        high: end of the axis.
        ticks: places of ticks and grid lines.
        label: of the axis.
    """
    for axes in row:
        axes.set_ylim(0, high)
        # Ticks that nobody sees would still be laid out in every panel.
        axes.yaxis.set_visible(False)
        draw_rules(axes, ticks)
    row[0].yaxis.set_visible(True)
    row[0].set_yticks(ticks)
    row[0].set_ylabel(label)


def draw_rules(axes: Axes, places: Iterable[float], *, upright: bool = False, **own_style: Any) -> None:
    """Draw straight lines across a panel, faster than grid lines of ticks."""
    lines = [((at, 0), (at, 1)) if upright else ((0, at), (1, at)) for at in places]
    transform = axes.get_xaxis_transform() if upright else axes.get_yaxis_transform()
    style = {"colors": GRID, "linewidths": 0.6, "zorder": 0, **own_style}
    # Lines across the panel must not widen its limits.
    axes.add_collection(LineCollection(lines, transform=transform, **style), autolim=False)


def scale_y(axes: Axes, largest: float) -> None:
    """Scale the labels of the y axis by a power of ten, shown above it, if the values are tiny."""
    power = floor(log10(largest)) if largest > 0 else 0
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    if power < -2:
        formatter = FuncFormatter(lambda value, _: f"{value / 10.0**power:g}")
        formatter.set_offset_string(f"×10{str(power).translate(SUPERSCRIPT)}")
        axes.yaxis.set_major_formatter(formatter)
        axes.yaxis.get_offset_text().set_fontsize(SMALL)


def draw_band(axes: Axes, round_R: Array, low_R: Array, high_R: Array, colour: str) -> None:
    """Shade the area between two curves.

    Args:
        axes: the panel.
        round_R: rounds, or other places on the x axis.
        low_R: the lower curve.
        high_R: the upper curve.
        colour: of the area, which is pale.
    """
    around = np.concatenate([round_R, round_R[::-1]]), np.concatenate([low_R, high_R[::-1]])
    axes.add_patch(Polygon(np.column_stack(around), facecolor=colour, alpha=0.12, linewidth=0))
