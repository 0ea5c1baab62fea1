"""Temperatures by round: of the algorithms of a scenario, and means over scenarios.

Shapes: S runs, R rounds, B resamples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fedgrid.arguments import check_arguments
from fedgrid.tracking.arrays import Array, mean_without_nan
from fedgrid.tracking.figures.panels import (
    NO_RUN,
    Margins,
    build_legend_entries,
    create_panels,
    draw_band,
    scale_y,
    set_split_title,
    set_up_rounds,
    write_reason,
)
from fedgrid.tracking.figures.style import GRID, INK, Style, choose_styles, paper_style
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study, require_one_value, stack_by_round

UNKNOWN = "no temperature was recorded"
RESAMPLES = 1000
"""Number of resamples in the bootstrap of an interval."""
FAMILY = "ocfl-"
DASHES = (0, (3, 2))


@check_arguments()
def temperatures(study: Study) -> Figure:
    """Draw the temperature by round, one panel per split, one line per run, clustering rounds marked.

    Raises:
        ValueError: if the study has several data sets or numbers of clients.
    """
    require_one_value(study, "dataset", "clients")
    with paper_style():
        style, splits = choose_styles(study.algorithms), study.splits
        margins = Margins(gap=0.4)
        figure, row = create_panels(
            len(splits), len(splits), 1.35, margins=margins, legend=build_legend_entries(style)
        )
        row[0].set_ylabel("temperature")
        if not splits:
            _write_empty(row[0], NO_RUN)
        for axes, split in zip(row, splits, strict=False):
            set_split_title(axes, split)
            results = study.with_values(split=split).finished
            measured = [result for result in results if result.has("temperature")]
            if measured:
                _draw_runs(axes, measured, style)
            else:
                _write_empty(axes, UNKNOWN if results else NO_RUN)
    return figure


@check_arguments()
def temperature_bands(study: Study, *, normalised: bool, together: bool = False) -> Figure:
    """Draw the mean temperature over splits and seeds, one panel per data set (or number of clients of one).

    Bands are 95 % bootstrap intervals of the mean over the runs. The runs are those that never cluster, as of
    fedavg, and have a temperature in every round. If there are none, they are those of the OCFL algorithms,
    which may have a temperature only until they cluster; then only rounds with at least half of the runs are
    drawn.
    `normalised` scales each run to its own least and greatest value. Dashed lines are mean clustering rounds
    of the OCFL algorithms. With `together` there is one panel, of all data sets, in the rounds that all of
    them have. Source: Figures 3 and 4 of the OCFL journal paper.
    """
    count = len(study.datasets)
    all_runs = {f"mean of {count} data {'set' if count == 1 else 'sets'}": study}
    parts = all_runs if together else _split_study(study)
    with paper_style():
        style = choose_styles([name for name in study.algorithms if name.startswith(FAMILY)])
        margins = Margins(head=0.22, gap=0.4, row_gap=0.62)
        legend = [
            Line2D([], [], color=INK, label="mean temperature"),
            Patch(facecolor=INK, alpha=0.12, linewidth=0, label="95 % interval"),
            *build_legend_entries(
                {name: replace(own_style, line=DASHES) for name, own_style in style.items()}
            ),
        ]
        figure, places = create_panels(len(parts), 3, 1.35, margins=margins, legend=legend)
        for axes in places[::3]:
            axes.set_ylabel("temperature, min-max scaled" if normalised else "temperature")
        if not parts:
            _write_empty(places[0], NO_RUN)
        for axes, (name, part) in zip(places, parts.items(), strict=False):
            axes.set_title(name)
            _draw_band(axes, part, style, normalised=normalised)
    return figure


def _draw_runs(axes: Axes, results: Sequence[Run], style: Mapping[str, Style]) -> None:
    """Draw one line per run, each thinner than the last, so that coinciding runs stay visible."""
    order = list(style)
    for result in sorted(results, key=lambda result: order.index(result.algorithm)):
        algorithm = result.algorithm
        size = 1 - order.index(algorithm) / len(order)
        there_R = ~np.isnan(result.curves["temperature"])
        round_R, temperature_R = result.round_R[there_R], result.curves["temperature"][there_R]
        marks = np.flatnonzero(round_R == result.scores["clustering_round"]).tolist()
        line = {**style[algorithm].line_settings, "linewidth": 0.6 + 0.9 * size, "markersize": 2.4 + 3 * size}
        axes.plot(round_R, temperature_R, label=algorithm, markevery=marks, **line)
    _fit_axes(axes)


def _fit_axes(axes: Axes) -> None:
    """Fit the axes to the lines."""
    box = axes.dataLim
    axes.margins(y=0.08)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    scale_y(axes, box.y1)
    set_up_rounds(axes, np.array([box.x0, box.x1]))


def _draw_band(axes: Axes, study: Study, style: Mapping[str, Style], *, normalised: bool) -> None:
    """Draw the mean temperature of one panel, its interval, and the mean clustering rounds."""
    results, least = _choose_runs(study.finished)
    if not results:
        _write_empty(axes, UNKNOWN if study.finished else NO_RUN)
        return
    round_R, values_SR = stack_by_round(results, "temperature")
    if normalised:
        # Before rounds are left out, so that each run's range is that of all its rounds.
        values_SR = _scale_runs(values_SR)
    # A mean over the few runs that recorded it longest would not be one of all runs.
    count_R = (~np.isnan(values_SR)).sum(axis=0)
    there_R = count_R >= least * count_R.max()
    round_R, values_SR = round_R[there_R], values_SR[:, there_R]
    axes.plot(round_R, mean_without_nan(values_SR.T), color=INK)
    # A single run has no interval: all of its resamples are itself.
    if len(results) > 1:
        low_R, high_R = _bootstrap_interval(values_SR)
        draw_band(axes, round_R, low_R, high_R, INK)
    for position, (algorithm, own_style) in enumerate(style.items()):
        rounds = [
            result.scores["clustering_round"] for result in study.with_values(algorithm=algorithm).finished
        ]
        numbers = [number for number in rounds if number is not None]
        if numbers:
            mean_round = float(np.mean(numbers))
            axes.axvline(mean_round, color=own_style.colour, linestyle=DASHES, linewidth=0.8, label=algorithm)
            marker = {
                **own_style.marker_settings,
                "linestyle": "none",
                "transform": axes.get_xaxis_transform(),
            }
            axes.plot([mean_round], [0.96 - 0.09 * position], **marker)
    _fit_axes(axes)
    if normalised:
        axes.set_ylim(-0.02, 1.02)


def _split_study(study: Study) -> dict[str, Study]:
    """Split a study by data set, or by number of clients if it has one data set; titles -> studies."""
    if len(study.datasets) > 1:
        return {dataset: study.with_values(dataset=dataset) for dataset in study.datasets}
    return {
        f"{name}, {clients} clients": study.with_values(clients=clients) for name, clients in study.blocks
    }


def _choose_runs(results: Sequence[Run]) -> tuple[list[Run], float]:
    """Choose the runs to average, and the share of them that a round must have to be drawn.

    Of runs that never cluster one per scenario and seed, as they are equal, in the rounds that all have.
    """
    measured = [result for result in results if result.has("temperature")]
    complete_runs = {
        (result.scenario, result.seed): result
        # Reversed, so that the first algorithm's run is left of those that are equal.
        for result in reversed(measured)
        if result.scores["clustering_round"] is None and not np.isnan(result.curves["temperature"]).any()
    }
    if complete_runs:
        return list(complete_runs.values()), 1.0
    return [result for result in measured if result.algorithm.startswith(FAMILY)], 0.5


def _scale_runs(values_SR: Array) -> Array:
    """Scale each run to the range from 0 to 1; a constant run is 0."""
    low_S = np.fmin.reduce(values_SR, axis=1)[:, None]
    span_S = np.fmax.reduce(values_SR, axis=1)[:, None] - low_S
    return np.asarray((values_SR - low_S) / np.where(span_S > 0, span_S, 1.0))


def _bootstrap_interval(values_SR: Array) -> Array:
    """Compute the 2.5 % and 97.5 % quantiles of the means of resampled runs, shape (2, R).

    Resampling is seeded. A resample without a value in a round is left out of its quantiles.
    """
    generator = np.random.default_rng(0)
    chosen_BS = generator.integers(len(values_SR), size=(RESAMPLES, len(values_SR)))
    # As counts, all means of resamples are two matrix products; as indices they would take S times the
    # memory.
    counts_BS = np.stack([np.bincount(row, minlength=len(values_SR)) for row in chosen_BS]).astype(float)
    is_recorded_SR = ~np.isnan(values_SR)
    weight_BR = counts_BS @ is_recorded_SR
    total_BR = counts_BS @ np.where(is_recorded_SR, values_SR, 0.0)
    means_BR = np.divide(total_BR, weight_BR, out=np.full(total_BR.shape, np.nan), where=weight_BR > 0)
    return np.asarray(np.nanquantile(means_BR, (0.025, 0.975), axis=0))


def _write_empty(axes: Axes, reason: str) -> None:
    """Write the reason why a panel is empty, without ticks."""
    axes.set_yticks([])
    write_reason(axes, reason)
