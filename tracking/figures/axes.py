"""Scores over the values of an axis of the grid, a line an algorithm.

Shapes: V values of the axis.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.tracking.figures.curves import band
from fedgrid.tracking.figures.panels import FIFTHS, NO_RUN, Margins, entries, panels, rule, say
from fedgrid.tracking.figures.style import Style, paper_style, styles
from fedgrid.tracking.records import Array
from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import along, at, numbers_of, values_of
from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.study import Study

MEASURES = {
    "personalised accuracy, last round": measures.PA_LAST,
    "ARI of the last partition": measures.FINAL_ARI,
}
WIDE = 10
"""Ratio of the greatest to the least value from which on an axis of positive numbers is logarithmic."""


def over_axis(study: Study, axis: str) -> Figure:
    """Draw personalised accuracy and adjusted Rand index over the values of an axis, a line an algorithm.

    Lines are means over scenarios, each of which counts alike; bands reach from the least to the greatest
    mean of a seed. Values that are no numbers stand side by side in the order of the runs.
    """
    part = along(study, axis)
    values = values_of(part, axis)
    numbers = numbers_of(values)
    places_V = np.arange(len(values), dtype=np.float64) if numbers is None else np.array(numbers)
    with paper_style():
        style = styles(part.algorithms)
        margins = Margins(gap=0.55, head=0.2)
        figure, row = panels(len(MEASURES), len(MEASURES), 1.6, margins=margins, legend=entries(style))
        for axes, (name, measure) in zip(row, MEASURES.items(), strict=True):
            axes.set_title(name)
            _draw(axes, part, axis, values, places_V, measure, style)
            _scale(axes, values, places_V, is_number=numbers is not None)
            axes.set_xlabel(axis)
            if not axes.lines:
                say(axes, "no such score was recorded" if part.finished else NO_RUN)
    return figure


def _draw(
    axes: Axes,
    study: Study,
    axis: str,
    values: tuple[str, ...],
    places_V: Array,
    measure: Measure,
    style: dict[str, Style],
) -> None:
    for position, (algorithm, style_of) in enumerate(style.items()):
        part = study.where(algorithm=algorithm)
        mean_V, low_V, high_V = np.array([_summary(at(part, axis, value), measure) for value in values]).T
        there_V = ~np.isnan(mean_V)
        if not there_V.any():
            continue
        # Ever thinner, so that lines show that coincide.
        size = 1 - position / len(style)
        line = {**style_of.of_line, "linewidth": 0.7 + 0.9 * size, "markersize": 2.6 + 2.6 * size}
        axes.plot(places_V[there_V], mean_V[there_V], label=algorithm, **line)
        if (low_V[there_V] < high_V[there_V]).any():
            band(axes, places_V[there_V], low_V[there_V], high_V[there_V], style_of.colour)


def _summary(study: Study, measure: Measure) -> tuple[float, float, float]:
    """Return the mean over scenarios, and the least and greatest mean of one seed; NaN without a score."""
    by_scenario: dict[object, list[float]] = {}
    by_seed: dict[int, list[float]] = {}
    for result in study.finished:
        if not np.isnan(value := measure.of(result)):
            by_scenario.setdefault(result.run.scenario, []).append(value)
            by_seed.setdefault(result.run.seed, []).append(value)
    if not by_scenario:
        return (np.nan,) * 3
    seeds = [float(np.mean(found)) for found in by_seed.values()]
    return float(np.mean([np.mean(found) for found in by_scenario.values()])), min(seeds), max(seeds)


def _scale(axes: Axes, values: tuple[str, ...], places_V: Array, *, is_number: bool) -> None:
    low = min(0.0, axes.dataLim.y0 - 0.03) if axes.lines else 0.0
    axes.set_ylim(low, 1.03)
    axes.set_yticks(FIFTHS)
    rule(axes, FIFTHS)
    if is_number and len(places_V) and places_V.min() > 0 and places_V.max() >= WIDE * places_V.min():
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(places_V, values)
