"""The scores of a search's trials over the settings, as curves and as a map over two settings.

Each panel shows one score, named in its title: scores that need the hidden groups never share a panel with
others. Shapes: T trials, S places at which there are trials, N pixels along a side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedgrid.tracking.figures.panels import Margins, panels, say
from fedgrid.tracking.figures.style import FAINT, GRID, INK, PUBLISHED, paper_style
from fedgrid.tracking.records import Array

PIXELS = 120
"""Pixels along a side of a map."""
DECADE = (1, 2, 5)
"""Digits of the ticks on a logarithmic axis."""
NO_TRIAL = "no trial has this score"
SERIES = [(style.colour, style.marker) for name, style in PUBLISHED.items() if name != "BNC"]
RING: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 7.5,
    "markeredgecolor": "#882255",
    "markeredgewidth": 1.3,
    "markerfacecolor": "none",
    "clip_on": False,
}
DOT: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 2.8,
    "markeredgecolor": INK,
    "markeredgewidth": 0.8,
    "color": "white",
    "clip_on": False,
}
BEST = "the best"


@dataclass(frozen=True)
class Tried:
    """A finished trial."""

    params: Mapping[str, Any]
    scores: Mapping[str, float]
    """Title of the panel -> score, without the scores that the trial lacks."""


@dataclass(frozen=True)
class Axis:
    """A numeric setting."""

    name: str
    low: float
    high: float
    log: bool = False
    whole: bool = False

    def place(self, values: Any) -> Array:
        """Return the positions of values on the axis."""
        return np.asarray(np.log10(values) if self.log else values, np.float64)

    @property
    def ends(self) -> tuple[float, float]:
        """Positions of the ends of the axis."""
        return float(self.place(self.low)), float(self.place(self.high))

    def ticks(self) -> list[float]:
        """Return round values along the axis."""
        if self.log:
            first, last = int(np.floor(np.log10(self.low))), int(np.ceil(np.log10(self.high)))
            ticks = [digit * 10.0**power for power in range(first, last + 1) for digit in DECADE]
        else:
            ticks = list(MaxNLocator(5, integer=self.whole).tick_values(self.low, self.high))
        return [tick for tick in ticks if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]


Panels = Mapping[str, tuple[float, float] | None]
"""Title of a panel -> the range that it shows at least; None: the range of the trials."""


def score_curves(
    tried: Sequence[Tried], axes: Sequence[Axis], scores: Panels, choice: str | None = None
) -> Figure:
    """Draw each score (a row) over each setting (a column), one marker per trial, the best with a ring.

    `choice` is a setting that is not a number: its values have colours. If the trials differ in only one
    setting, a line joins them.
    """
    values = sorted({trial.params[choice] for trial in tried}, key=str) if choice else []
    series = {value: SERIES[number % len(SERIES)] for number, value in enumerate(values)}
    legend = [_entry(f"{choice} {value}", *own_style) for value, own_style in series.items()]
    others = [key for key in (tried[0].params if tried else ()) if key != axes[0].name]
    alone = all(len({str(trial.params[key]) for trial in tried}) == 1 for key in others)
    margins = Margins(left=0.5, head=0.24, row_gap=0.6, gap=0.2)
    with paper_style():
        figure, places = panels(
            len(scores) * len(axes), len(axes), 1.35, margins=margins, legend=[*legend, _best_entry()]
        )
        for place, panel in enumerate(places):
            row, column = divmod(place, len(axes))
            axis, (score, least) = axes[column], list(scores.items())[row]
            known = [trial for trial in tried if score in trial.scores]
            if column == 0:
                panel.set_title(score, loc="left")
            panel.yaxis.set_visible(column == 0)
            if not known:
                panel.set_yticks([])
                say(panel, NO_TRIAL)
                continue
            if alone:
                _join(panel, known, axis, score)
            for trial in known:
                colour, marker = series[trial.params[choice]] if choice else SERIES[2]
                _mark(panel, trial, axis, score, color=colour, marker=marker, markersize=3.6)
            _mark(panel, _best(known, score), axis, score, **RING)
            _scale(panel, axis, known, score, least)
    return figure


def heat_map(tried: Sequence[Tried], x: Axis, y: Axis, scores: Panels) -> Figure:
    """Draw scores over two settings, one panel per score; each pixel has the colour of the nearest trial.

    Trials at the same place, which differ in other settings, are averaged. A dot is a trial; the best has a
    ring.
    """
    legend = [Line2D([], [], label="a trial", **DOT), _best_entry()]
    margins = Margins(left=0.5, right=0.55, head=0.26, gap=0.85)
    with paper_style():
        figure, places = panels(len(scores), len(scores), 2.4, margins=margins, legend=legend)
        for panel, (score, least) in zip(places, scores.items(), strict=True):
            panel.set_title(score)
            known = [trial for trial in tried if score in trial.scores]
            if not known:
                panel.set_yticks([])
                say(panel, NO_TRIAL)
                continue
            _colour(panel, known, x, y, score, least)
        places[0].set_ylabel(y.name)
    return figure


def _mark(panel: Axes, trial: Tried, axis: Axis, score: str, **style: Any) -> None:
    style = {"linestyle": "none", **style}
    panel.plot([axis.place(trial.params[axis.name])], [trial.scores[score]], **style)


def _join(panel: Axes, known: Sequence[Tried], axis: Axis, score: str) -> None:
    ordered = sorted(known, key=lambda trial: float(trial.params[axis.name]))
    places = [axis.place(trial.params[axis.name]) for trial in ordered]
    panel.plot(places, [trial.scores[score] for trial in ordered], color=FAINT, linewidth=0.8, zorder=1)


def _scale(
    panel: Axes, axis: Axis, known: Sequence[Tried], score: str, least: tuple[float, float] | None
) -> None:
    low, high = axis.ends
    panel.set_xticks(axis.place(axis.ticks()), [f"{tick:g}" for tick in axis.ticks()])
    panel.set_xlim(low - 0.04 * (high - low), high + 0.04 * (high - low))
    panel.set_xlabel(axis.name)
    bottom, top = _range(known, score, least)
    panel.set_ylim(bottom - 0.08 * (top - bottom), top + 0.08 * (top - bottom))
    panel.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    panel.grid(axis="y", color=GRID, linewidth=0.6)


def _colour(
    panel: Axes, known: Sequence[Tried], x: Axis, y: Axis, score: str, least: tuple[float, float] | None
) -> None:
    places_T2 = np.array([[axis.place(trial.params[axis.name]) for axis in (x, y)] for trial in known])
    scores_T = np.array([trial.scores[score] for trial in known])
    low, high = _range(known, score, least)
    image = panel.imshow(
        _nearest(places_T2, scores_T, np.array([x.ends, y.ends])),
        extent=(*x.ends, *y.ends),
        origin="lower",
        aspect="auto",
        interpolation="none",
        cmap="viridis",
        vmin=low,
        vmax=high,
    )
    panel.plot(*places_T2.T, **DOT)
    best = _best(known, score)
    panel.plot(*([axis.place(best.params[axis.name])] for axis in (x, y)), **RING)
    panel.set_xticks(x.place(x.ticks()), [f"{tick:g}" for tick in x.ticks()])
    panel.set_yticks(y.place(y.ticks()), [f"{tick:g}" for tick in y.ticks()])
    panel.set_xlim(*x.ends)
    panel.set_ylim(*y.ends)
    panel.set_xlabel(x.name)
    panel.spines[:].set_visible(False)
    scale = panel.figure.colorbar(image, cax=panel.inset_axes((1.04, 0, 0.045, 1)), ticks=MaxNLocator(5))
    scale.outline.set_visible(False)


def _nearest(places_T2: Array, scores_T: Array, ends_22: Array) -> Array:
    """Return the mean score at the nearest place with trials, shape (N, N), bottom row first."""
    places_S2, place_T = np.unique(places_T2, axis=0, return_inverse=True)
    means_S = np.bincount(place_T, scores_T) / np.bincount(place_T)
    at_S2 = (places_S2 - ends_22[:, 0]) / (ends_22[:, 1] - ends_22[:, 0])
    middles_N = (np.arange(PIXELS) + 0.5) / PIXELS
    x_NN, y_NN = np.meshgrid(middles_N, middles_N)
    squares_NNS = (x_NN[..., None] - at_S2[:, 0]) ** 2 + (y_NN[..., None] - at_S2[:, 1]) ** 2
    return np.asarray(means_S[squares_NNS.argmin(axis=-1)])


def _range(known: Sequence[Tried], score: str, least: tuple[float, float] | None) -> tuple[float, float]:
    values = [*(trial.scores[score] for trial in known), *(least or ())]
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.05, high + 0.05)


def _best(known: Sequence[Tried], score: str) -> Tried:
    return max(known, key=lambda trial: trial.scores[score])


def _entry(label: str, colour: str, marker: str) -> Line2D:
    return Line2D([], [], label=label, color=colour, marker=marker, linestyle="none")


def _best_entry() -> Line2D:
    return Line2D([], [], label=BEST, **RING)
