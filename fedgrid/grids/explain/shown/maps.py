"""A grid of maps: the same images, explained by the model of each algorithm.

Shapes: an image of C channels and H x W pixels.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from fedgrid.grids.explain.shown.results import ShownMap
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.figures.panels import LETTER, LINE
from fedgrid.tracking.figures.style import FAINT, PAGE, SMALL, PaperFigure, paper_style

COLOURS = "viridis"
"""Perceptually even and safe for colour blindness; the same for grey and colour images."""
SHARE = 0.7
"""Of the map in a picture; the rest is the image in grey."""
MOST_COLUMNS = 8
"""Panels in a row, the image itself included."""
GAP, HEAD, FOOT, SIDE, BAR = 0.06, 0.3, 0.08, 0.55, 0.1
"""Inches: between panels, above each, below all; the names at the left and the colour bar at the right."""


def map_grid(shown: Sequence[ShownMap]) -> Figure:
    """Draw a row for each image: itself, then its map by each algorithm, titled with label and prediction.

    More algorithms than fit in a row go on in the next one.
    """
    images = tuple(dict.fromkeys((one.client, one.place) for one in shown))
    algorithms = tuple(dict.fromkeys(one.algorithm for one in shown))
    parts = [
        algorithms[start : start + MOST_COLUMNS - 1] for start in range(0, len(algorithms), MOST_COLUMNS - 1)
    ]
    columns = 1 + max((len(part) for part in parts), default=0)
    side = min(1.1, (PAGE - 2 * SIDE - BAR - columns * GAP) / columns)
    rows = len(images) * len(parts)
    width = SIDE + columns * (side + GAP) + BAR + SIDE
    height = rows * (side + HEAD) + FOOT
    with paper_style():
        figure = PaperFigure(figsize=(width, height))

        def panel(row: int, column: int) -> Axes:
            left, foot = SIDE + column * (side + GAP), height - (row + 1) * (side + HEAD)
            axes = figure.add_axes((left / width, foot / height, side / width, side / height))
            axes.set_axis_off()
            return axes

        for number, (client, place) in enumerate(images):
            of_image = {one.algorithm: one for one in shown if (one.client, one.place) == (client, place)}
            first = next(iter(of_image.values()))
            for line, part in enumerate(parts):
                row = number * len(parts) + line
                _draw_image(panel(row, 0), first, int(side / LETTER))
                for column, algorithm in enumerate(part, start=1):
                    _draw(panel(row, column), of_image.get(algorithm), algorithm, side)
        _colour_bar(figure, (width - SIDE - BAR + 0.05) / width, BAR / width)
    return figure


def _draw_image(axes: Axes, image: ShownMap, letters: int) -> None:
    axes.imshow(_visible(image.pixels_CHW), interpolation="nearest")
    axes.set_title(f"label {image.class_name(image.label)}"[:letters], fontsize=SMALL)
    style: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center", "fontsize": SMALL}
    axes.text(-0.08, 0.5, f"client {image.client}", transform=axes.transAxes, **style)


def _draw(axes: Axes, image: ShownMap | None, algorithm: str, side: float) -> None:
    name = algorithm[: int(side / LETTER)]
    if image is None:
        axes.set_title(name, fontsize=SMALL)
        axes.text(0.5, 0.5, "not\nexplained", ha="center", va="center", color=FAINT, fontsize=SMALL)
        return
    axes.imshow(overlay(image.map_HW, image.pixels_CHW), interpolation="nearest")
    says = f"says {image.class_name(image.prediction)}"[: int(side / LETTER)] + (", empty" * image.is_empty)
    colour = "#117733" if image.prediction == image.label else "#882255"
    axes.set_title(name, fontsize=SMALL, pad=4 + LINE * 72)
    axes.text(
        0.5, 1.03, says, transform=axes.transAxes, ha="center", va="bottom", fontsize=SMALL, color=colour
    )


def overlay(map_HW: Array, pixels_CHW: Array) -> Array:
    """Return the map's colours over the image in grey: red, green, blue from 0 to 1, shape (H, W, 3)."""
    import matplotlib

    coloured = matplotlib.colormaps[COLOURS](map_HW / 255)[..., :3]
    grey_HW = pixels_CHW.mean(axis=0) / 255
    return np.asarray(SHARE * coloured + (1 - SHARE) * grey_HW[..., None])


def _visible(pixels_CHW: Array) -> Array:
    """Return an image as matplotlib takes it: grey is drawn in red, green and blue alike."""
    pixels_HWC = np.moveaxis(pixels_CHW, 0, -1)
    return np.repeat(pixels_HWC, 3, axis=-1) if pixels_HWC.shape[-1] == 1 else pixels_HWC[..., :3]


def _colour_bar(figure: Figure, left: float, width: float) -> None:
    axes = figure.add_axes((left, 0.1, width, 0.7))
    scale = ScalarMappable(Normalize(0, 1), COLOURS)
    figure.colorbar(scale, cax=axes, ticks=[0, 0.5, 1])
    axes.set_title("map", fontsize=SMALL)
    axes.tick_params(labelsize=SMALL)
