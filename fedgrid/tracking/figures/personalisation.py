"""Personalised and generalised F1 as the two ends of a segment.

Shapes: S runs, E = 2 ends of a segment.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedgrid.tracking.arrays import mean
from fedgrid.tracking.figures.panels import (
    FIFTHS,
    NO_RUN,
    Margins,
    name_row,
    named_rows,
    panels,
    rule,
    say,
    title,
)
from fedgrid.tracking.figures.style import FAINT, Style, paper_style, styles
from fedgrid.tracking.scoring.run import RunResult
from fedgrid.tracking.scoring.study import Study, require_one

PUBLISHED = {"published_gf1": "GF1 (generalisation)", "published_pf1": "PF1 (personalisation)"}
RIGHT = {"generalised_f1": "generalised F1", "personalised_f1": "personalised F1, over own classes"}
MEMBERS = {
    "global_own_accuracy": "global model",
    "personalised_accuracy": "the communities' models, on their members' test sets",
}
SERVER = {
    "global_accuracy": "global model",
    "generalised_accuracy": "the communities' models, on the server's test set",
}


def segments(study: Study, *, published: bool = True) -> Figure:
    """Draw a segment from generalised (open) to personalised (filled) F1, one row per algorithm.

    There is one panel per split and number of clients. Ends are means over rounds, clients and seeds; pale
    bars show the range of the seeds. `published` draws Figure 2 of the OCFL journal paper: F1 over the union
    of classes, and generalisation of the local models before aggregation. Otherwise both ends are of the
    cluster's model, over the classes in the test set.

    Raises:
        ValueError: if the study has several data sets.
    """
    return _segments(study, PUBLISHED if published else RIGHT, RunResult.mean, "macro F1")


def communities(study: Study, *, server: bool = False) -> Figure:
    """Draw a segment from the global model's accuracy (open) to the communities' (filled), as `segments`.

    Both are of the last round, on the test sets of the communities' members, or on the server's. Source:
    Figure 6 of Bettinelli et al.

    Raises:
        ValueError: if the study has several data sets.
    """
    return _segments(study, SERVER if server else MEMBERS, RunResult.last, "accuracy")


def _segments(
    study: Study, ends: Mapping[str, str], of: Callable[[RunResult, str], float], label: str
) -> Figure:
    """Draw a segment between two curves, each a number of a run by `of`."""
    require_one(study, "dataset")
    with paper_style():
        style, splits = styles(study.algorithms), study.splits
        labels, left, row_height = named_rows(study.algorithms)
        figure, places = panels(
            len(study.blocks) * len(splits),
            len(splits),
            max(0.6, row_height * len(style)),
            margins=Margins(left=left, right=0.28),
            legend=_legend(ends.values()),
        )
        for axes, ((_, clients), split) in zip(places, product(study.blocks, splits), strict=False):
            _draw(axes, study.of(clients=clients, split=split), style, list(ends), of, label)
            if split == splits[0]:
                axes.set_yticks(range(len(labels)), labels)
            if split == splits[-1]:
                name_row(axes, f"{clients} clients")
        for axes, split in zip(places, splits, strict=False):
            title(axes, split)
        for axes in places[-len(splits) :]:
            axes.set_xticks(FIFTHS, ["0", ".2", ".4", ".6", ".8", "1"])
            axes.set_xlabel(label)
        if not study.runs:
            say(places[0], NO_RUN)
    return figure


def _draw(
    axes: Axes,
    study: Study,
    style: Mapping[str, Style],
    curves: Sequence[str],
    of: Callable[[RunResult, str], float],
    label: str,
) -> None:
    axes.set(xlim=(-0.03, 1.03), ylim=(len(style) - 0.5, -0.5), xticks=[], yticks=[])
    rule(axes, FIFTHS, upright=True)
    ranges: list[tuple[tuple[float, int], tuple[float, int]]] = []
    colours: list[str] = []
    for row, (algorithm, own_style) in enumerate(style.items()):
        results = study.of(algorithm=algorithm).finished
        ends_ES = np.array([[of(result, curve) for result in results] for curve in curves])
        if np.isnan(ends_ES).all():
            continue
        ends = mean(ends_ES), [row, row]
        line = {**own_style.of_line, "markersize": 4.5, "linewidth": 1.4}
        axes.plot(*ends, label=algorithm, markevery=[1], **{**line, "markerfacecolor": own_style.colour})
        axes.plot(*ends, markevery=[0], **{**line, "markerfacecolor": "white", "linestyle": "none"})
        for low, high in zip(np.fmin.reduce(ends_ES, axis=1), np.fmax.reduce(ends_ES, axis=1), strict=True):
            if low < high:
                ranges.append(((low, row), (high, row)))
                colours.append(own_style.colour)
    bars = LineCollection(ranges, colors=colours, alpha=0.3, linewidths=4, zorder=1)
    axes.add_collection(bars, autolim=False)
    if not study.finished:
        say(axes, NO_RUN)
    elif not axes.lines:
        say(axes, f"no {label.removeprefix('macro ')} was recorded")


def _legend(names: Iterable[str]) -> list[Line2D]:
    """Return the entries for an open and a filled end."""
    return [
        Line2D([], [], label=name, color=FAINT, linestyle="none", marker="o", markerfacecolor=face)
        for name, face in zip(names, ("white", FAINT), strict=True)
    ]
