"""Scores over the values of an axis of the grid: a line for each algorithm, or value of another axis.

Shapes: V values of the axis.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import floor, inf, log10
from operator import itemgetter

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.arguments import check_arguments
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.figures.panels import (
    FIFTHS,
    NO_RUN,
    SUPERSCRIPT,
    Margins,
    build_legend_entries,
    create_panels,
    draw_band,
    draw_rules,
    label_row,
    write_reason,
)
from fedgrid.tracking.figures.style import Style, choose_styles, paper_style
from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import (
    list_axis_values,
    parse_numbers,
    select_along_axis,
    select_axis_value,
    select_setting,
)
from fedgrid.tracking.scoring.measures import Measure, average_by_scenario, average_by_seed
from fedgrid.tracking.scoring.study import Study

TITLES = {
    measures.PA_LAST: "personalised accuracy, last round",
    measures.FINAL_ARI: "ARI of the last partition",
    measures.LOCAL_LAST: "accuracy of the last local models",
    measures.GA_LAST: "generalised accuracy, last round",
    measures.GLOBAL_LAST: "global model's accuracy",
    measures.SILHOUETTE_LAST: "silhouette of the last partition",
}
COLUMNS = 2
"""Panels side by side; of two axes, those of one algorithm are all side by side."""


@check_arguments()
def over_axis(study: Study, axis: str) -> Figure:
    """Draw the scores of `measures.AXIS_MEASURES` over the values of an axis, with a line for each algorithm.

    Lines are means over scenarios, each of which counts alike; bands reach from the least to the greatest
    mean of a seed. Values that are no numbers stand side by side in the order of the runs.
    """
    part = select_along_axis(study, axis)
    values = list_axis_values(part, axis)
    shown = measures.list_axis_measures(part)
    with paper_style():
        style = choose_styles(part.algorithms)
        margins = Margins(gap=0.55, head=0.2, row_gap=0.6)
        figure, places = create_panels(
            len(shown), COLUMNS, 1.6, margins=margins, legend=build_legend_entries(style)
        )
        lines = {
            name: [select_axis_value(part.with_values(algorithm=name), axis, value) for value in values]
            for name in part.algorithms
        }
        for axes, measure in zip(places, shown, strict=True):
            axes.set_title(TITLES[measure])
            axes.set_xlabel(axis)
            _draw_lines(axes, lines, values, measure, style)
    return figure


@check_arguments()
def over_epsilon(study: Study) -> Figure:
    """Draw accuracy and ARI over epsilon: a line for each algorithm, a point for each of the grid's settings.

    Runs without noise stand at the right edge. An algorithm whose clients send nothing has epsilon 0, and is
    a level line. Runs with noise whose epsilon is infinite are left out.
    """
    parts = [select_setting(study, setting) for setting in study.settings]
    points: dict[str, list[tuple[float, Study]]] = {name: [] for name in study.algorithms}
    for name, part in product(points, parts):
        own = part.with_values(algorithm=name)
        epsilons = measures.read_scores_by_seed(own, measures.EPSILON).values()
        points[name].append((max(epsilons, default=np.nan), own))
    finite_epsilons = [x for line in points.values() for x, _ in line if 0 < x < inf]
    # Runs without noise have no epsilon: they stand a decade above the largest one.
    edge = 10 * max(finite_epsilons, default=1.0)
    with paper_style():
        style = choose_styles(study.algorithms)
        margins = Margins(gap=0.55, head=0.2)
        figure, places = create_panels(2, COLUMNS, 1.9, margins=margins, legend=build_legend_entries(style))
        for axes, measure in zip(places, measures.AXIS_MEASURES, strict=True):
            axes.set_title(TITLES[measure])
            axes.set_xscale("log")
            for position, (name, line) in enumerate(points.items()):
                # Epsilon 0 has no place on a logarithmic axis either.
                if any(x == 0 for x, _ in line):
                    level, _, _ = _summarise_measure(study.with_values(algorithm=name), measure)
                    axes.axhline(level, label=name, **{**style[name].line_settings, "marker": ""})
                    continue
                drawn = sorted(((edge if np.isnan(x) else x, own) for x, own in line), key=itemgetter(0))
                shown = [(x, own) for x, own in drawn if x < inf]
                xs_V, own_V = np.array([x for x, _ in shown]), [own for _, own in shown]
                _draw_line(axes, name, xs_V, own_V, measure, style[name], 1 - position / len(points))
            _level_ticks(axes)
            axes.set_xlabel("epsilon (∞: without noise)")
            powers = range(floor(log10(min(finite_epsilons, default=1.0))), floor(log10(edge)))
            labels = [f"10{str(power).translate(SUPERSCRIPT)}" for power in powers]
            axes.minorticks_off()
            axes.set_xticks([*(10.0**power for power in powers), edge], [*labels, "∞"])
            if not study.finished:
                write_reason(axes, NO_RUN)
    return figure


@check_arguments()
def sweep(study: Study, axis: str, by: str) -> Figure:
    """Draw scores over an axis: a line for each value of the axis `by`, a row for each algorithm.

    Lines, bands and values are as in `over_axis`. Source: Figure 2 of FLIS (accuracy over the threshold,
    lines for local epochs); Figure 3 of Bettinelli et al. (scores over the resolution, lines for majorities).

    Raises:
        ValueError: if the study has several data sets.
    """
    if len(study.datasets) > 1:
        raise ValueError(f"{study.name} has several data sets ({', '.join(study.datasets)}), expected one")
    part = select_along_axis(select_along_axis(study, axis), by)
    values, names = (
        list_axis_values(part, axis),
        {f"{by} {value}": value for value in list_axis_values(part, by)},
    )
    shown, algorithms = measures.list_axis_measures(part), part.algorithms
    with paper_style():
        style = choose_styles(tuple(names))
        margins = Margins(gap=0.3, head=0.34, right=0.25)
        count = len(shown) * len(algorithms)
        figure, places = create_panels(
            count, len(shown), 1.35, margins=margins, legend=build_legend_entries(style)
        )
        for start, algorithm in enumerate(algorithms):
            row = places[start * len(shown) : (start + 1) * len(shown)]
            own = part.with_values(algorithm=algorithm)
            lines = {
                name: [select_axis_value(select_axis_value(own, by, other), axis, value) for value in values]
                for name, other in names.items()
            }
            for axes, measure in zip(row, shown, strict=True):
                if start == 0:
                    # Three panels side by side have no room for a title in one line.
                    axes.set_title(TITLES[measure].replace(", ", "\n").replace(" of the ", "\nof the "))
                is_last = start == len(algorithms) - 1
                axes.set_xlabel(axis if is_last else "")
                _draw_lines(axes, lines, values, measure, style)
                if not is_last:
                    axes.set_xticklabels([])
            label_row(row[-1], algorithm)
    return figure


def _draw_lines(
    axes: Axes,
    lines: Mapping[str, Sequence[Study]],
    values: Sequence[str],
    measure: Measure,
    style: Mapping[str, Style],
) -> None:
    """Draw lines by name, each with a study for every value."""
    numbers = parse_numbers(values)
    places_V = np.arange(len(values), dtype=np.float64) if numbers is None else np.array(numbers)
    for position, (name, parts) in enumerate(lines.items()):
        _draw_line(axes, name, places_V, parts, measure, style[name], 1 - position / len(lines))
    _level_ticks(axes)
    # Values that span a decade, such as 0.01, 0.1 and 1, would crowd at the left of a linear axis.
    if numbers and min(numbers) > 0 and max(numbers) >= 10 * min(numbers):
        axes.set_xscale("log")
        axes.minorticks_off()
    axes.set_xticks(places_V, values)
    if not axes.lines:
        is_run = any(part.finished for parts in lines.values() for part in parts)
        write_reason(axes, "no such score was recorded" if is_run else NO_RUN)


def _draw_line(
    axes: Axes,
    name: str,
    places_V: Array,
    parts: Sequence[Study],
    measure: Measure,
    style: Style,
    size: float,
) -> None:
    """Draw one line, with a study for every place.

    The smaller `size`, the thinner the line, so that lines which coincide stay visible.
    """
    mean_V, low_V, high_V = np.array([_summarise_measure(part, measure) for part in parts]).reshape(-1, 3).T
    there_V = ~np.isnan(mean_V)
    if not there_V.any():
        return
    line = {**style.line_settings, "linewidth": 0.7 + 0.9 * size, "markersize": 2.6 + 2.6 * size}
    axes.plot(places_V[there_V], mean_V[there_V], label=name, **line)
    if (low_V[there_V] < high_V[there_V]).any():
        draw_band(axes, places_V[there_V], low_V[there_V], high_V[there_V], style.colour)


def _summarise_measure(study: Study, measure: Measure) -> tuple[float, float, float]:
    """Compute the mean over scenarios, and the least and greatest mean of one seed; NaN without a score."""
    scores = measures.read_scores_by_seed(study, measure)
    if not scores:
        return (np.nan,) * 3
    seeds = average_by_seed(scores)
    return float(np.mean([*average_by_scenario(scores).values()])), min(seeds), max(seeds)


def _level_ticks(axes: Axes) -> None:
    """Set up the y axis for scores, which may be a little below 0."""
    # An ARI below that of chance is negative.
    low = min(0.0, axes.dataLim.y0 - 0.03) if axes.lines else 0.0
    axes.set_ylim(low, 1.03)
    axes.set_yticks(FIFTHS)
    draw_rules(axes, FIFTHS)
