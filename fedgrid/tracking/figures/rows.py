"""Figures with a row an algorithm: the cost of a target score, a dot a run, and critical differences.

The critical-difference diagram has average ranks, and groups without a significant difference.
"""

from collections.abc import Mapping, Sequence
from itertools import count

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedgrid.tracking.figures.panels import NO_RUN, Margins, named_rows, panels, say
from fedgrid.tracking.figures.style import (
    FAINT,
    GRID,
    INK,
    PAGE,
    SMALL,
    PaperFigure,
    Style,
    paper_style,
    styles,
)
from fedgrid.tracking.scoring.cost import AS_USUAL, Terms, costs, recorded, scale
from fedgrid.tracking.scoring.study import Study

AXIS = 0.42
"""Inches from the top of the figure to the line of the ranks."""
BAR = 0.09
"""Inches from bar to bar."""
UNKNOWN = "no scenario has a result of every algorithm"
SPREAD = 0.3
"""Share of a row's height over which its runs are spread to either side."""


def cost_to_target(study: Study, terms: Terms = AS_USUAL) -> Figure:
    """Draw the rounds, and the traffic up and down, until a score reaches a target.

    There is one row per algorithm, one dot per run, and a bar at the median; the number of runs that never
    reach the target is at the right. There is no panel of traffic if that of a run is unknown.
    """
    terms = recorded(study, terms)
    by_algorithm, target = costs(study, terms), terms.target
    known = [cost for of_algorithm in by_algorithm.values() for cost in of_algorithm]
    name, size = scale(known, terms.unit)
    axis = {"rounds": {of: [cost.rounds for cost in found] for of, found in by_algorithm.items()}}
    if known and not any(np.isnan(cost.bytes) for cost in known):
        axis[f"sent up and down, {name}"] = {
            of: [cost.sent(terms.unit) / size for cost in found] for of, found in by_algorithm.items()
        }
    with paper_style():
        labels, left, height = named_rows(study.algorithms)
        margins = Margins(left=left, right=0.62, head=0.42, gap=0.75)
        figure, row = panels(len(axis), len(axis), max(0.6, (height + 0.05) * len(labels)), margins=margins)
        for axes, (label, values) in zip(row, axis.items(), strict=True):
            _draw_runs(axes, values, styles(study.algorithms))
            axes.set_xlabel(label)
        row[0].set_yticks(range(len(labels)), labels)
        text = f"until {target.score}\nreaches {target.goal} (bars: medians)"
        figure.text(0.01, 1 - 0.06 / figure.get_figheight(), text, va="top")
        if not known:
            say(row[0], f"no {target.score} was recorded" if study.finished else NO_RUN)
    return figure


def _draw_runs(axes: Axes, values: Mapping[str, Sequence[float]], style: Mapping[str, Style]) -> None:
    axes.set_ylim(max(1, len(values)) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    for row, (algorithm, of_runs) in enumerate(values.items()):
        offsets = np.linspace(-SPREAD, SPREAD, len(of_runs)) if len(of_runs) > 1 else [0.0] * len(of_runs)
        dots = [(x, row + offset) for x, offset in zip(of_runs, offsets, strict=True) if np.isfinite(x)]
        marker = {**style[algorithm].of_marker, "alpha": 0.7, "markeredgewidth": 0.6, "markersize": 3.4}
        axes.plot([x for x, _ in dots], [y for _, y in dots], linestyle="none", label=algorithm, **marker)
        if len(of_runs) > 1 and np.isfinite(middle := float(np.median(of_runs))):
            axes.vlines(middle, row - 0.42, row + 0.42, color=INK, linewidth=1.2)
        never = len(of_runs) - len(dots)
        note = f"never: {never}" if never else "" if of_runs else "no run"
        beside = axes.get_yaxis_transform()
        axes.text(1.02, row, note, transform=beside, va="center", fontsize=SMALL, color=FAINT)
    axes.set_xlim(0, 1.04 * max(axes.dataLim.x1, 1.0))


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
