"""Scores over the values of an axis of the grid: a line an algorithm, or a line a value of a second axis.

Shapes: V values of the axis.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.tracking.figures.curves import band
from fedgrid.tracking.figures.panels import FIFTHS, NO_RUN, Margins, entries, name_row, panels, rule, say
from fedgrid.tracking.figures.style import Style, paper_style, styles
from fedgrid.tracking.records import Array
from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import along, at, numbers_of, values_of
from fedgrid.tracking.scoring.measures import Measure
from fedgrid.tracking.scoring.study import Study

TITLES = {
    measures.PA_LAST: "personalised accuracy, last round",
    measures.FINAL_ARI: "ARI of the last partition",
    measures.LOCAL_LAST: "accuracy of the last local models",
    measures.GA_LAST: "generalised accuracy, last round",
    measures.GLOBAL_LAST: "global model's accuracy",
    measures.SILHOUETTE_LAST: "silhouette of the last partition",
}
WIDE = 10
"""Ratio of the greatest to the least value from which on an axis of positive numbers is logarithmic."""
COLUMNS = 2
"""Panels side by side; of two axes, those of one algorithm are all side by side."""


def over_axis(study: Study, axis: str) -> Figure:
    """Draw the scores of `measures.SWEPT` over the values of an axis, a line an algorithm.

    Lines are means over scenarios, each of which counts alike; bands reach from the least to the greatest
    mean of a seed. Values that are no numbers stand side by side in the order of the runs.
    """
    part = along(study, axis)
    values = values_of(part, axis)
    shown = measures.swept(part)
    with paper_style():
        style = styles(part.algorithms)
        margins = Margins(gap=0.55, head=0.2, row_gap=0.6)
        figure, places = panels(len(shown), COLUMNS, 1.6, margins=margins, legend=entries(style))
        lines = {
            name: [at(part.where(algorithm=name), axis, value) for value in values]
            for name in part.algorithms
        }
        for axes, measure in zip(places, shown, strict=True):
            axes.set_title(TITLES[measure])
            _draw(axes, lines, values, measure, style)
            axes.set_xlabel(axis)
            if not axes.lines:
                say(axes, "no such score was recorded" if part.finished else NO_RUN)
    return figure


def sweep(study: Study, axis: str, by: str) -> Figure:
    """Draw the scores over the values of an axis, a line a value of the axis `by`, a row an algorithm.

    Lines, bands and values are as in `over_axis`. Source: Figure 2 of FLIS (accuracy over the threshold,
    lines for local epochs); Figure 3 of Bettinelli et al. (scores over the resolution, lines for majorities).

    Raises:
        ValueError: if the study has several data sets.
    """
    if len(study.datasets) > 1:
        raise ValueError(f"{study.name} has several data sets ({', '.join(study.datasets)}), expected one")
    part = along(along(study, axis), by)
    values, names = values_of(part, axis), {f"{by} {value}": value for value in values_of(part, by)}
    shown, algorithms = measures.swept(part), part.algorithms
    with paper_style():
        style = styles(tuple(names))
        margins = Margins(gap=0.3, head=0.34, right=0.25)
        count = len(shown) * len(algorithms)
        figure, places = panels(count, len(shown), 1.35, margins=margins, legend=entries(style))
        for start, algorithm in enumerate(algorithms):
            row = places[start * len(shown) : (start + 1) * len(shown)]
            own = part.where(algorithm=algorithm)
            lines = {
                name: [at(at(own, by, other), axis, value) for value in values]
                for name, other in names.items()
            }
            for axes, measure in zip(row, shown, strict=True):
                _draw(axes, lines, values, measure, style)
                if start == 0:
                    axes.set_title(TITLES[measure].replace(", ", "\n").replace(" of the ", "\nof the "))
                if start == len(algorithms) - 1:
                    axes.set_xlabel(axis)
                else:
                    axes.set_xticklabels([])
                if not axes.lines:
                    say(axes, "no such score was recorded" if own.finished else NO_RUN)
            name_row(row[-1], algorithm)
    return figure


def _draw(
    axes: Axes,
    lines: Mapping[str, Sequence[Study]],
    values: Sequence[str],
    measure: Measure,
    style: Mapping[str, Style],
) -> None:
    """Draw lines by name, each with a study for every value."""
    numbers = numbers_of(values)
    places_V = np.arange(len(values), dtype=np.float64) if numbers is None else np.array(numbers)
    for position, (name, parts) in enumerate(lines.items()):
        mean_V, low_V, high_V = np.array([_summary(part, measure) for part in parts]).T
        there_V = ~np.isnan(mean_V)
        if not there_V.any():
            continue
        # Ever thinner, so that lines show that coincide.
        size = 1 - position / len(lines)
        line = {**style[name].of_line, "linewidth": 0.7 + 0.9 * size, "markersize": 2.6 + 2.6 * size}
        axes.plot(places_V[there_V], mean_V[there_V], label=name, **line)
        if (low_V[there_V] < high_V[there_V]).any():
            band(axes, places_V[there_V], low_V[there_V], high_V[there_V], style[name].colour)
    _scale(axes, values, places_V, is_number=numbers is not None)


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


def _scale(axes: Axes, values: Sequence[str], places_V: Array, *, is_number: bool) -> None:
    low = min(0.0, axes.dataLim.y0 - 0.03) if axes.lines else 0.0
    axes.set_ylim(low, 1.03)
    axes.set_yticks(FIFTHS)
    rule(axes, FIFTHS)
    if is_number and len(places_V) and places_V.min() > 0 and places_V.max() >= WIDE * places_V.min():
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(places_V, values)
