"""Who holds which classes: the images of each class at each client, for training and for tests.

Shapes: K clients, L classes.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.figures.maps import HUES, by_group, lighter, name_groups, rule_groups
from fedgrid.tracking.figures.panels import LETTER, LONG, Margins, panels
from fedgrid.tracking.figures.style import paper_style

MOST_TICKS = 20
"""Largest number of classes that are all named."""
SHORT = 2
"""Letters of a class' name that is written from left to right."""
FAINTEST = 0.12
"""Depth of the colour of a single image; none is white."""


def class_counts(train_KL: Array, test_KL: Array, groups_K: Array, classes: Sequence[str] = ()) -> Figure:
    """Draw the images of each class at each client, by hidden group; the hue says which group.

    The more images, the deeper the colour; the deepest is the largest number in the panel.

    Args:
        train_KL: training images, shape (K, L).
        test_KL: test images, shape (K, L).
        groups_K: the hidden group of each client, shape (K,).
        classes: the names of the L classes; none: their numbers.
    """
    names = [name[:LONG] for name in classes] or [str(label) for label in range(train_KL.shape[1])]
    longest = max(map(len, names))
    foot = max(Margins.foot, LETTER * (longest + 2))
    with paper_style():
        height = min(7.0, max(0.9, 0.07 * len(groups_K)))
        figure, places = panels(2, 2, height, margins=Margins(left=0.6, gap=0.3, foot=foot))
        counts = {"training images": train_KL, "test images": test_KL}
        for axes, (name, counts_KL) in zip(places, counts.items(), strict=True):
            axes.set_title(f"{name}, at most {counts_KL.max()} of a class")
            _draw(axes, counts_KL, groups_K, names)
        places[0].set_ylabel("client")
        if 1 < len(np.unique(groups_K)) <= len(groups_K) / 2:
            name_groups(places[0], groups_K)
            for axes in places:
                rule_groups(axes, groups_K)
    return figure


def _draw(axes: Axes, counts_KL: Array, groups_K: Array, names: Sequence[str]) -> None:
    order_K, upright = by_group(groups_K), max(map(len, names)) > SHORT
    num_clients, num_classes = counts_KL.shape
    axes.imshow(_picture(counts_KL, groups_K)[order_K], aspect="auto", interpolation="none")
    axes.set_ylim(num_clients - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_xlabel("" if upright else "class")
    if num_classes <= MOST_TICKS:
        axes.set_xticks(range(num_classes), names, rotation=90 if upright else 0)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))


def _picture(counts_KL: Array, groups_K: Array) -> Array:
    """Return red, green and blue from 0 to 1, shape (K, L, 3)."""
    depth_KL = counts_KL / max(1, counts_KL.max())
    depth_KL = np.where(counts_KL > 0, FAINTEST + (1 - FAINTEST) * depth_KL, 0)
    places_K = np.unique(groups_K, return_inverse=True)[1]
    hues_K = [HUES[place % len(HUES)] for place in places_K.tolist()]
    return np.stack(
        [lighter(hue, 1 - depth_L[:, None]) for hue, depth_L in zip(hues_K, depth_KL, strict=True)]
    )
