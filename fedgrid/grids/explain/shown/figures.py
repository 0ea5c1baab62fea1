"""Figures of one's own explanations: mean curves, and insertion against deletion.

Shapes: K + 1 points of a curve.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.grids.explain.shown.results import Band
from fedgrid.tracking.explained.scores import Explained
from fedgrid.tracking.figures.panels import FIFTHS, Margins, entries, panels, rule, say, share_y
from fedgrid.tracking.figures.panels import band as shade
from fedgrid.tracking.figures.style import DASHED, FAINT, Style, paper_style, styles

NONE = "no images"
COLUMNS = 2
CURVES = ("insertion", "deletion")


def mean_curves(bands: Sequence[Band], on: str) -> Figure:
    """Draw the mean insertion and deletion curves on one distribution, a row of panels a data set.

    Bands reach from the first to the third quartile of the images; dashed: the same images in a random order.
    """
    datasets = tuple(dict.fromkeys(band.dataset for band in bands))
    algorithms = tuple(dict.fromkeys(band.algorithm for band in bands))
    with paper_style():
        look = styles(algorithms)
        margins = Margins(head=0.24, gap=0.3, row_gap=0.5)
        figure, places = panels(
            len(datasets) * len(CURVES), len(CURVES), 1.7, margins=margins, legend=entries(look)
        )
        for row, dataset in enumerate(datasets):
            of_row = places[row * len(CURVES) : (row + 1) * len(CURVES)]
            share_y(of_row, 1.0, FIFTHS, "probability")
            shown = [band for band in bands if (band.dataset, band.on) == (dataset, on)]
            for axes, curve in zip(of_row, CURVES, strict=True):
                axes.set_title(f"{dataset}, {curve}")
                axes.set_xlabel(f"share of pixels {'put in' if curve == 'insertion' else 'taken out'}")
                axes.set_xlim(0, 1)
                _draw_curves(axes, shown, curve, [look[band.algorithm] for band in shown])
                if not shown:
                    say(axes, NONE)
    return figure


def _draw_curves(axes: Axes, bands: Sequence[Band], curve: str, look: Sequence[Style]) -> None:
    for position, (band, style) in enumerate(zip(bands, look, strict=True)):
        mean = band.means[curve]
        at = np.linspace(0, 1, len(mean))
        low, high = band.quartiles[curve]
        shade(axes, at, low, high, style.colour)
        axes.plot(at, band.means[f"random_{curve}"], color=style.colour, linestyle=DASHED, linewidth=0.8)
        every = max(1, len(mean) // 4)
        axes.plot(at, mean, markevery=(position % every, every), **style.of_line)


def insertion_against_deletion(explained: Sequence[Explained], on: str) -> Figure:
    """Draw a dot a model, a panel a data set; on the diagonal the order of the pixels is worth nothing."""
    datasets = tuple(dict.fromkeys(model.scenario[0] for model in explained))
    algorithms = tuple(dict.fromkeys(model.algorithm for model in explained))
    with paper_style():
        look = styles(algorithms)
        margins = Margins(head=0.24, gap=0.3, row_gap=0.5)
        count = min(COLUMNS, len(datasets))
        legend = entries(look)
        for entry in legend:
            entry.set_linestyle("none")
        figure, places = panels(
            len(datasets), count, 2.7 if count > 1 else 2.6, margins=margins, legend=legend
        )
        for position, (axes, dataset) in enumerate(zip(places, datasets, strict=False)):
            shown = [model for model in explained if model.on == on and model.scenario[0] == dataset]
            axes.set_title(dataset)
            axes.set_xlabel("deletion, low is good")
            if position % count == 0:
                axes.set_ylabel("insertion, high is good")
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
            rule(axes, FIFTHS)
            rule(axes, FIFTHS, upright=True)
            axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.7, linestyle=DASHED)
            for name in algorithms:
                dots = [model for model in shown if model.algorithm == name]
                marker = {**look[name].of_marker, "alpha": 0.7, "markeredgewidth": 0.5, "markersize": 3}
                axes.plot(
                    [model.deletion for model in dots],
                    [model.insertion for model in dots],
                    linestyle="none",
                    **marker,
                )
            if not shown:
                say(axes, NONE)
    return figure
