"""Figures of explanations: boxes of scores, mean curves, insertion against deletion, maps of the same images.

Shapes: K + 1 points of a curve, an image of C channels and H x W pixels.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from fedgrid.grids.explain.shown.results import Band, ShownMap
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.explained.scores import ExplanationMeans, ExplanationScore
from fedgrid.tracking.figures.panels import (
    FIFTHS,
    LETTER,
    LINE,
    Margins,
    build_legend_entries,
    create_panels,
    draw_rules,
    share_y,
    wrap_names,
    write_reason,
)
from fedgrid.tracking.figures.panels import draw_band as shade
from fedgrid.tracking.figures.style import (
    DASHED,
    FAINT,
    INK,
    PAGE,
    SMALL,
    PaperFigure,
    Style,
    choose_styles,
    paper_style,
)

NONE = "no images"
COLUMNS = 2
HALF_BOX = 0.32
"""Half the height of a box, as a share of a row's."""
CURVES = ("insertion", "deletion")
COLOURS = "viridis"
"""Colour map of saliency: perceptually even and safe for colour blindness; the same for grey and colour
images."""
SHARE = 0.7
"""Share of the map in a picture; the rest is the image in grey."""
MOST_COLUMNS = 8
"""Most panels in a row, with the image itself."""
GAP, HEAD, FOOT, SIDE, BAR = 0.06, 0.3, 0.08, 0.55, 0.1
"""Inches between panels, above each, below all, for the names at the left, and for the colour bar at the
right."""


def draw_explanation_boxes(explained: Sequence[ExplanationMeans], on: str, score: ExplanationScore) -> Figure:
    """Draw the scores of all models on one distribution, in a panel for each data set, with their number.

    Boxes reach from the first to the third quartile, with a bar at the median (Figures 6 and 7 of the OCFL
    journal paper, which pool the models of all scenarios likewise).
    """
    datasets = tuple(dict.fromkeys(model.scenario[0] for model in explained))
    algorithms = tuple(dict.fromkeys(model.algorithm for model in explained))
    with paper_style():
        labels, left, height = wrap_names(algorithms)
        margins = Margins(left=left, right=0.3, head=0.24, gap=0.55, row_gap=0.56)
        row_height = max(0.6, (height + 0.05) * len(labels))
        figure, places = create_panels(
            len(datasets), min(COLUMNS, len(datasets)), row_height, margins=margins
        )
        for position, (axes, dataset) in enumerate(zip(places, datasets, strict=False)):
            models = [model for model in explained if model.on == on and model.scenario[0] == dataset]
            values = [
                [score.formula(model) for model in models if model.algorithm == name] for name in algorithms
            ]
            _draw_boxes(axes, values, [choose_styles(algorithms)[name] for name in algorithms])
            axes.set_title(dataset)
            axes.set_xlabel(f"{score.name} on {on}")
            if position % COLUMNS == 0 or figure.get_figwidth() < PAGE:
                axes.set_yticks(range(len(labels)), labels)
            if not models:
                write_reason(axes, "no score")
    return figure


def _draw_boxes(axes: Axes, values: Sequence[Sequence[float]], style: Sequence[Style]) -> None:
    """Draw a row of boxes and dots for each algorithm."""
    axes.set_ylim(max(1, len(values)) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xlim(min([0.0, *(value for row in values for value in row)]), 1)
    draw_rules(axes, FIFTHS, upright=True)
    for row, (row_values, row_style) in enumerate(zip(values, style, strict=True)):
        style_of_count: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center"}
        axes.text(1.02, row, f"n {len(row_values)}", fontsize=SMALL, color=FAINT, **style_of_count)
        if not row_values:
            continue
        low, middle, high = np.quantile(row_values, (0.25, 0.5, 0.75)).tolist()
        axes.fill_between(
            [low, high],
            row - HALF_BOX,
            row + HALF_BOX,
            facecolor="none",
            edgecolor=row_style.colour,
            linewidth=0.9,
        )
        axes.vlines(middle, row - HALF_BOX, row + HALF_BOX, color=INK, linewidth=1.2)
        # Spread over the height of the box in the order of the models, as random offsets would change the
        # file.
        offsets = np.linspace(-HALF_BOX, HALF_BOX, len(row_values) + 2)[1:-1]
        dots = {**row_style.marker_settings, "alpha": 0.6, "markeredgewidth": 0.4, "markersize": 2.2}
        axes.plot(row_values, row + offsets, linestyle="none", **dots)


def draw_mean_curves(bands: Sequence[Band], on: str) -> Figure:
    """Draw the mean insertion and deletion curves on one distribution, in a row of panels for each data set.

    Bands reach from the first to the third quartile of the images; dashed curves are of the same images in a
    random order.
    """
    datasets = tuple(dict.fromkeys(band.dataset for band in bands))
    algorithms = tuple(dict.fromkeys(band.algorithm for band in bands))
    with paper_style():
        algorithm_styles = choose_styles(algorithms)
        margins = Margins(head=0.24, gap=0.3, row_gap=0.5)
        figure, places = create_panels(
            len(datasets) * len(CURVES),
            len(CURVES),
            1.7,
            margins=margins,
            legend=build_legend_entries(algorithm_styles),
        )
        for row, dataset in enumerate(datasets):
            row_places = places[row * len(CURVES) : (row + 1) * len(CURVES)]
            share_y(row_places, 1.0, FIFTHS, "probability")
            shown = [band for band in bands if (band.dataset, band.on) == (dataset, on)]
            for axes, curve in zip(row_places, CURVES, strict=True):
                axes.set_title(f"{dataset}, {curve}")
                axes.set_xlabel(f"share of pixels {'put in' if curve == 'insertion' else 'taken out'}")
                axes.set_xlim(0, 1)
                _draw_curves(axes, shown, curve, [algorithm_styles[band.algorithm] for band in shown])
                if not shown:
                    write_reason(axes, NONE)
    return figure


def _draw_curves(axes: Axes, bands: Sequence[Band], curve: str, band_styles: Sequence[Style]) -> None:
    """Draw the bands and means of one curve."""
    for position, (band, style) in enumerate(zip(bands, band_styles, strict=True)):
        mean = band.means[curve]
        at = np.linspace(0, 1, len(mean))
        low, high = band.quartiles[curve]
        shade(axes, at, low, high, style.colour)
        axes.plot(at, band.means[f"random_{curve}"], color=style.colour, linestyle=DASHED, linewidth=0.8)
        # Markers at other points for each algorithm, as curves that are alike would hide each other's.
        every = max(1, len(mean) // 4)
        axes.plot(at, mean, markevery=(position % every, every), **style.line_settings)


def draw_insertion_against_deletion(explained: Sequence[ExplanationMeans], on: str) -> Figure:
    """Draw a dot for each model, in a panel for each data set.

    On the diagonal the order of the pixels is worth nothing.
    """
    datasets = tuple(dict.fromkeys(model.scenario[0] for model in explained))
    algorithms = tuple(dict.fromkeys(model.algorithm for model in explained))
    with paper_style():
        algorithm_styles = choose_styles(algorithms)
        margins = Margins(head=0.24, gap=0.3, row_gap=0.5)
        count = min(COLUMNS, len(datasets))
        legend = build_legend_entries(algorithm_styles)
        for entry in legend:
            entry.set_linestyle("none")
        figure, places = create_panels(
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
            draw_rules(axes, FIFTHS)
            draw_rules(axes, FIFTHS, upright=True)
            axes.plot([0, 1], [0, 1], color=FAINT, linewidth=0.7, linestyle=DASHED)
            for name in algorithms:
                dots = [model for model in shown if model.algorithm == name]
                marker = {
                    **algorithm_styles[name].marker_settings,
                    "alpha": 0.7,
                    "markeredgewidth": 0.5,
                    "markersize": 3,
                }
                axes.plot(
                    [model.deletion for model in dots],
                    [model.insertion for model in dots],
                    linestyle="none",
                    **marker,
                )
            if not shown:
                write_reason(axes, NONE)
    return figure


def draw_map_grid(shown: Sequence[ShownMap]) -> Figure:
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

        def add_panel(row: int, column: int) -> Axes:
            """Add the panel of a row and column."""
            left, foot = SIDE + column * (side + GAP), height - (row + 1) * (side + HEAD)
            axes = figure.add_axes((left / width, foot / height, side / width, side / height))
            axes.set_axis_off()
            return axes

        for number, (client, place) in enumerate(images):
            maps_by_algorithm = {
                one.algorithm: one for one in shown if (one.client, one.place) == (client, place)
            }
            first = next(iter(maps_by_algorithm.values()))
            for line, part in enumerate(parts):
                row = number * len(parts) + line
                _draw_image(add_panel(row, 0), first, int(side / LETTER))
                for column, algorithm in enumerate(part, start=1):
                    _draw_map(add_panel(row, column), maps_by_algorithm.get(algorithm), algorithm, side)
        _draw_colour_bar(figure, (width - SIDE - BAR + 0.05) / width, BAR / width)
    return figure


def _draw_image(axes: Axes, image: ShownMap, letters: int) -> None:
    """Draw an image with its label and client."""
    axes.imshow(_to_colours(image.pixels_CHW), interpolation="nearest")
    axes.set_title(f"label {image.find_class_name(image.label)}"[:letters], fontsize=SMALL)
    style: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center", "fontsize": SMALL}
    axes.text(-0.08, 0.5, f"client {image.client}", transform=axes.transAxes, **style)


def _draw_map(axes: Axes, image: ShownMap | None, algorithm: str, side: float) -> None:
    """Draw the map of an image by one algorithm's model, with the prediction."""
    name = algorithm[: int(side / LETTER)]
    if image is None:
        axes.set_title(name, fontsize=SMALL)
        axes.text(0.5, 0.5, "not\nexplained", ha="center", va="center", color=FAINT, fontsize=SMALL)
        return
    axes.imshow(overlay_map(image.map_HW, image.pixels_CHW), interpolation="nearest")
    says = f"says {image.find_class_name(image.prediction)}"[: int(side / LETTER)] + (
        ", empty" * image.is_empty
    )
    colour = "#117733" if image.prediction == image.label else "#882255"
    axes.set_title(name, fontsize=SMALL, pad=4 + LINE * 72)
    axes.text(
        0.5, 1.03, says, transform=axes.transAxes, ha="center", va="bottom", fontsize=SMALL, color=colour
    )


def overlay_map(map_HW: Array, pixels_CHW: Array) -> Array:
    """Blend the map's colours with the image in grey: red, green, blue from 0 to 1, shape (H, W, 3)."""
    import matplotlib

    coloured = matplotlib.colormaps[COLOURS](map_HW / 255)[..., :3]
    grey_HW = pixels_CHW.mean(axis=0) / 255
    return np.asarray(SHARE * coloured + (1 - SHARE) * grey_HW[..., None])


def _to_colours(pixels_CHW: Array) -> Array:
    """Convert an image for matplotlib: grey is drawn in red, green and blue alike."""
    pixels_HWC = np.moveaxis(pixels_CHW, 0, -1)
    return np.repeat(pixels_HWC, 3, axis=-1) if pixels_HWC.shape[-1] == 1 else pixels_HWC[..., :3]


def _draw_colour_bar(figure: Figure, left: float, width: float) -> None:
    """Draw the bar that explains the map's colours."""
    axes = figure.add_axes((left, 0.1, width, 0.7))
    scale = ScalarMappable(Normalize(0, 1), COLOURS)
    figure.colorbar(scale, cax=axes, ticks=[0, 0.5, 1])
    axes.set_title("map", fontsize=SMALL)
    axes.tick_params(labelsize=SMALL)
