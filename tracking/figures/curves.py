"""Scores by round, one line per algorithm.

Shapes: S runs, R rounds.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from fedgrid.tracking.figures.panels import (
    FIFTHS,
    NO_RUN,
    entries,
    number_rounds,
    panels,
    say,
    share_y,
    title,
)
from fedgrid.tracking.figures.style import Style, paper_style, styles
from fedgrid.tracking.records import Array
from fedgrid.tracking.scoring.scores import mean
from fedgrid.tracking.scoring.study import Result, Study, require_one


def ari_per_round(study: Study) -> Figure:
    """Draw the adjusted Rand index of each round's partition, one panel per split.

    Lines are means over the seeds; bands show the range of the seeds. Source: Figure 1 of the
    OCFL conference paper.

    Raises:
        ValueError: if the study has several data sets or numbers of clients.
    """
    return _by_split(study, "ari", "adjusted Rand index")


def learning_gap(study: Study, *, published: bool = False) -> Figure:
    """Draw |personalised - generalised| accuracy by round; panels, lines and bands as for the ARI.

    `published` draws the notebooks' DIST, in which the generalised accuracy is of the local model before
    aggregation.

    Raises:
        ValueError: if the study has several data sets or numbers of clients.
    """
    if published:
        return _by_split(study, "published_learning_gap", "learning gap (DIST)")
    return _by_split(study, "learning_gap", "learning gap (accuracy)")


def by_round(results: Sequence[Result], curve: str) -> tuple[Array, Array]:
    """Return the rounds of all runs, shape (R,), and the curve, (S, R), NaN in rounds that a run lacks."""
    round_R = np.unique(np.concatenate([result.round_R for result in results]))
    values_SR = np.full((len(results), len(round_R)), np.nan)
    for values_R, result in zip(values_SR, results, strict=True):
        values_R[np.searchsorted(round_R, result.round_R)] = result.curves[curve]
    return round_R, values_SR


def marks(position: int, count: int, rounds: int) -> tuple[int, int]:
    """Return first and step of a line's markers; those of `count` coinciding lines alternate."""
    step = max(count, rounds // 4)
    return (position * step // count) % rounds, step


def band(axes: Axes, round_R: Array, low_R: Array, high_R: Array, colour: str) -> None:
    """Shade the area between two curves."""
    around = np.concatenate([round_R, round_R[::-1]]), np.concatenate([low_R, high_R[::-1]])
    axes.add_patch(Polygon(np.column_stack(around), facecolor=colour, alpha=0.12, linewidth=0))


def _by_split(study: Study, curve: str, label: str) -> Figure:
    require_one(study, "dataset", "clients")
    with paper_style():
        style = styles(study.algorithms)
        splits = study.splits
        figure, row = panels(len(splits), len(splits), 1.35, legend=entries(style))
        share_y(row, 1.03, FIFTHS, label)
        if not splits:
            say(row[0], NO_RUN)
        for axes, split in zip(row, splits, strict=False):
            title(axes, split)
            _draw(axes, study.where(split=split), curve, style)
            if not axes.lines:
                say(axes, f"no {label} was recorded" if study.where(split=split).finished else NO_RUN)
        low = min(axes.dataLim.y0 for axes in row)
        for axes in row:
            axes.set_ylim(bottom=min(0.0, low - 0.03))
    return figure


def _draw(axes: Axes, study: Study, curve: str, style: Mapping[str, Style]) -> None:
    for position, (algorithm, own_style) in enumerate(style.items()):
        results = study.where(algorithm=algorithm).finished
        if not any((~np.isnan(result.curves[curve])).any() for result in results):
            continue
        round_R, values_SR = by_round(results, curve)
        there_R = ~np.isnan(values_SR).all(axis=0)
        round_R, values_SR = round_R[there_R], values_SR[:, there_R]
        every = marks(position, len(style), len(round_R))
        axes.plot(round_R, mean(values_SR.T), label=algorithm, markevery=every, **own_style.of_line)
        low_R, high_R = np.fmin.reduce(values_SR), np.fmax.reduce(values_SR)
        if (low_R < high_R).any():
            band(axes, round_R, low_R, high_R, own_style.colour)
    if axes.lines:
        number_rounds(axes, np.unique(np.concatenate([result.round_R for result in study.finished])))
