"""The critical-difference diagram: average ranks of algorithms, and groups without a significant
difference."""

from collections.abc import Mapping, Sequence
from itertools import count

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.tracking.figures.panels import named_rows, say
from fedgrid.tracking.figures.style import INK, PAGE, PaperFigure, Style, paper_style, styles

AXIS = 0.42
"""Inches from the top of the figure to the line of the ranks."""
BAR = 0.09
"""Inches from bar to bar."""
UNKNOWN = "no scenario has a result of every algorithm"


def critical_difference(
    ranks: Mapping[str, float],
    cliques: Sequence[Sequence[str]],
    num_scenarios: int,
    first: str = "1 is best",
) -> Figure:
    """Draw average ranks on a line, and bars that join algorithms without a significant difference.

    `first` says what rank 1 is. An algorithm whose rank is NaN is left out.

    Source: Demsar, Statistical comparisons of classifiers over
    multiple data sets, JMLR 7, 2006, Figure 1.
    """
    known = {name: rank for name, rank in sorted(ranks.items(), key=lambda item: item[1]) if rank == rank}
    bars = _levels([[known[name] for name in clique if name in known] for clique in cliques])
    labels, width, step = named_rows([f"{name}  {rank:.2f}" for name, rank in known.items()])
    names_from = AXIS + 0.2 + BAR * (1 + max((level for level, _, _ in bars), default=-1))
    height = names_from + step * max(1, -(-len(known) // 2))
    side = width + 0.1
    inches = (PAGE - 2 * side) / max(1, len(known) - 1)
    with paper_style():
        figure = PaperFigure(figsize=(PAGE, height))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, PAGE), ylim=(height, 0))
        axes.axis("off")
        if not known:
            say(axes, UNKNOWN)
            return figure
        places = [side + inches * rank for rank in range(max(2, len(known)))]
        plural = "scenario" if num_scenarios == 1 else "scenarios"
        _draw_axis(axes, places, f"average rank over {num_scenarios} {plural}, {first}")
        for level, low, high in bars:
            ends = [side + inches * (low - 1) - 0.04, side + inches * (high - 1) + 0.04]
            y = AXIS + 0.13 + BAR * level
            axes.plot(ends, [y, y], color=INK, linewidth=2.4, solid_capstyle="butt")
        style = styles(list(ranks))
        for position, (name, rank) in enumerate(known.items()):
            row = min(position, len(known) - 1 - position)
            edge = side if position == row else PAGE - side
            place = (side + inches * (rank - 1), names_from + step * row)
            _draw_name(axes, labels[position], style[name], place, edge)
    return figure


def _draw_axis(axes: Axes, places: Sequence[float], label: str) -> None:
    axes.plot([places[0], places[-1]], [AXIS, AXIS], color=INK, linewidth=0.8)
    axes.vlines(places, AXIS - 0.05, AXIS, color=INK, linewidth=0.8)
    for rank, place in enumerate(places, start=1):
        axes.text(place, AXIS - 0.08, str(rank), ha="center", va="bottom")
    axes.text(PAGE / 2, 0.04, label, ha="center", va="top")


def _draw_name(axes: Axes, text: str, style: Style, place: tuple[float, float], edge: float) -> None:
    """Write a name at the side, with a line to its rank."""
    x, y = place
    axes.plot([x, x, edge], [AXIS, y, y], color=INK, linewidth=0.7, label=text)
    axes.plot([x], [AXIS], linestyle="none", **style.of_marker)
    left = edge < PAGE / 2
    axes.text(edge + (-0.06 if left else 0.06), y, text, ha="right" if left else "left", va="center")


def _levels(cliques: Sequence[Sequence[float]]) -> list[tuple[int, float, float]]:
    """Return level, least and greatest rank of each clique of two or more; bars of a level do not overlap."""
    bars: list[tuple[int, float, float]] = []
    for low, high in sorted((min(ranks), max(ranks)) for ranks in cliques if len(ranks) > 1):
        taken = {level for level, _, end in bars if end >= low}
        bars.append((next(level for level in count() if level not in taken), low, high))
    return bars
