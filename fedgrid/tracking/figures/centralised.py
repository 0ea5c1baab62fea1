"""Loss and norms of a centralised training by epoch, from which Sattler's epsilons are proposed.

Shapes: E epochs.
"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.figures.maps import HUES
from fedgrid.tracking.figures.panels import Margins, number_rounds, panels
from fedgrid.tracking.figures.style import GRID, INK, SMALL, paper_style

TITLES = {
    "loss": "loss\nconverged in epoch {cooldown}",
    "update_l2": "L2 norm of the update\nwith the epsilons proposed",
    "weights_l1_change": "change of the weights' L1 norm\nas published",
}
"""Column -> title of its panel."""
DASHES = (0, (4, 3))


def update_norms(epochs: Mapping[str, Array], *, epsilon_1: float, epsilon_2: float, cooldown: int) -> Figure:
    """Draw the loss, the norm of the update, and the number published in its place, by epoch.

    `epochs` has the columns of `TITLES`, each of shape (E,). The two norms have unrelated scales, so that the
    epsilons are drawn in only one panel.
    """
    epoch_E = np.arange(1, len(epochs["loss"]) + 1)
    with paper_style():
        figure, row = panels(len(TITLES), len(TITLES), 1.35, margins=Margins(gap=0.5))
        for axes, (column, title) in zip(row, TITLES.items(), strict=True):
            axes.set_title(title.format(cooldown=cooldown))
            axes.plot(epoch_E, epochs[column], color=HUES[0], marker="o", markersize=2.4)
            axes.grid(axis="y", color=GRID, linewidth=0.6)
            axes.set_ylim(bottom=min(0.0, 1.1 * float(np.min(epochs[column]))))
            number_rounds(axes, epoch_E)
            axes.set_xlabel("epoch")
        row[0].axvline(cooldown, color=INK, linewidth=0.8, linestyle=DASHES, zorder=1.5)
        _mark(row[1], "$\\varepsilon_1$", epsilon_1)
        _mark(row[1], "$\\varepsilon_2$", epsilon_2)
    return figure


def _mark(axes: Axes, name: str, epsilon: float) -> None:
    axes.axhline(epsilon, color=INK, linewidth=0.8, linestyle=DASHES, zorder=1.5)
    beside = axes.get_yaxis_transform()
    axes.text(1.02, epsilon, name, transform=beside, va="center", fontsize=SMALL + 1, parse_math=True)
