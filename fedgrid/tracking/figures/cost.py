"""The cost of a target score: rounds, and bytes sent, a dot a run."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedgrid.tracking.figures.panels import NO_RUN, Margins, named_rows, panels, say
from fedgrid.tracking.figures.style import FAINT, GRID, INK, SMALL, Style, paper_style, styles
from fedgrid.tracking.scoring.cost import AS_USUAL, Terms, costs, recorded, scale
from fedgrid.tracking.scoring.study import Study

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
            _draw(axes, values, styles(study.algorithms))
            axes.set_xlabel(label)
        row[0].set_yticks(range(len(labels)), labels)
        text = f"until {target.score}\nreaches {target.goal} (bars: medians)"
        figure.text(0.01, 1 - 0.06 / figure.get_figheight(), text, va="top")
        if not known:
            say(row[0], f"no {target.score} was recorded" if study.finished else NO_RUN)
    return figure


def _draw(axes: Axes, values: Mapping[str, Sequence[float]], style: Mapping[str, Style]) -> None:
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
