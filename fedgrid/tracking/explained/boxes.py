"""Box plots of scores of explanations: a dot a model, by algorithm and data set."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.tracking.explained.scores import Explained, ExplanationScore
from fedgrid.tracking.figures.panels import FIFTHS, Margins, name_rows, panels, rule, say
from fedgrid.tracking.figures.style import FAINT, INK, PAGE, SMALL, Style, paper_style, styles

HALF = 0.32
"""Half the height of a box, of a row's."""
COLUMNS = 2


def explanation_boxes(explained: Sequence[Explained], on: str, score: ExplanationScore) -> Figure:
    """Draw the scores of all models on one distribution, a panel a data set, their number at the right.

    Boxes reach from the first to the third quartile, with a bar at the median (Figures 6 and 7 of the OCFL
    journal paper, which pool the models of all scenarios likewise).
    """
    datasets = tuple(dict.fromkeys(model.scenario[0] for model in explained))
    algorithms = tuple(dict.fromkeys(model.algorithm for model in explained))
    with paper_style():
        labels, left, height = name_rows(algorithms)
        margins = Margins(left=left, right=0.3, head=0.24, gap=0.55, row_gap=0.56)
        row_height = max(0.6, (height + 0.05) * len(labels))
        figure, places = panels(len(datasets), min(COLUMNS, len(datasets)), row_height, margins=margins)
        for position, (axes, dataset) in enumerate(zip(places, datasets, strict=False)):
            models = [model for model in explained if model.on == on and model.scenario[0] == dataset]
            values = [[score.of(model) for model in models if model.algorithm == name] for name in algorithms]
            _draw(axes, values, [styles(algorithms)[name] for name in algorithms])
            axes.set_title(dataset)
            axes.set_xlabel(f"{score.name} on {on}")
            if position % COLUMNS == 0 or figure.get_figwidth() < PAGE:
                axes.set_yticks(range(len(labels)), labels)
            if not models:
                say(axes, "no score")
    return figure


def _draw(axes: Axes, values: Sequence[Sequence[float]], style: Sequence[Style]) -> None:
    axes.set_ylim(max(1, len(values)) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlim(min([0.0, *(value for row in values for value in row)]), 1)
    rule(axes, FIFTHS, upright=True)
    for row, (of_row, look) in enumerate(zip(values, style, strict=True)):
        beside: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center"}
        axes.text(1.02, row, f"n {len(of_row)}", fontsize=SMALL, color=FAINT, **beside)
        if not of_row:
            continue
        low, middle, high = np.quantile(of_row, (0.25, 0.5, 0.75)).tolist()
        axes.fill_between(
            [low, high], row - HALF, row + HALF, facecolor="none", edgecolor=look.colour, linewidth=0.9
        )
        axes.vlines(middle, row - HALF, row + HALF, color=INK, linewidth=1.2)
        offsets = np.linspace(-HALF, HALF, len(of_row) + 2)[1:-1]
        dots = {**look.of_marker, "alpha": 0.6, "markeredgewidth": 0.4, "markersize": 2.2}
        axes.plot(of_row, row + offsets, linestyle="none", **dots)
