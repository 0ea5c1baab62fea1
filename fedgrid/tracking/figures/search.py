"""The scores of a search's trials over the settings, as curves and as a map over two settings.

Each panel shows one score, named in its title: scores that need the hidden groups never share a panel with
others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from fedgrid.tracking.figures.panels import Margins, create_panels, write_reason
from fedgrid.tracking.figures.style import FAINT, GRID, PUBLISHED, paper_style

SERIES = [(style.colour, style.marker) for name, style in PUBLISHED.items() if name != "fedavg"]
# Searches end at the bounds of a range, where the axes would cut a marker in half.
RING: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 7.5,
    "markeredgecolor": "#882255",
    "markeredgewidth": 1.3,
    "markerfacecolor": "none",
    "clip_on": False,
}


@dataclass(frozen=True)
class FinishedTrial:
    """A finished trial of a search: its settings and scores."""

    params: Mapping[str, Any]
    scores: Mapping[str, float]
    """Title of the panel -> score, without the scores that the trial lacks."""


@dataclass(frozen=True)
class Axis:
    """A numeric setting of a search, with its range."""

    name: str
    low: float
    high: float
    log: bool = False
    is_integer: bool = False


Panels = Mapping[str, tuple[float, float] | None]
"""Title of a panel -> the smallest range that it shows; None: the range of the trials."""


def draw_score_curves(
    finished_trials: Sequence[FinishedTrial], axes: Sequence[Axis], scores: Panels, choice: str | None = None
) -> Figure:
    """Draw each score (a row) over each setting (a column), one marker per trial, the best with a ring.

    If the trials differ in only one setting, a line joins them.

    Args:
        finished_trials: the finished trials.
        axes: the settings that are numbers.
        scores: the panels.
        choice: a setting that is not a number, whose values have colours; None (default): no such setting.
    """
    # As text: a choice may have values of several types, such as None and a number.
    values = sorted({trial.params[choice] for trial in finished_trials}, key=str) if choice else []
    series = {value: SERIES[number % len(SERIES)] for number, value in enumerate(values)}
    legend = [
        Line2D([], [], label=f"{choice} {value}", color=colour, marker=marker, linestyle="none")
        for value, (colour, marker) in series.items()
    ]
    others = [key for key in (finished_trials[0].params if finished_trials else ()) if key != axes[0].name]
    alone = all(len({str(trial.params[key]) for trial in finished_trials}) == 1 for key in others)
    margins = Margins(left=0.5, head=0.24, row_gap=0.6, gap=0.2)
    with paper_style():
        figure, places = create_panels(
            len(scores) * len(axes), len(axes), 1.35, margins=margins, legend=[*legend, _build_best_entry()]
        )
        for place, panel in enumerate(places):
            row, column = divmod(place, len(axes))
            axis, (score, least) = axes[column], list(scores.items())[row]
            trials = [trial for trial in finished_trials if score in trial.scores]
            if column == 0:
                panel.set_title(score, loc="left")
            panel.yaxis.set_visible(column == 0)
            if not trials:
                _write_no_score(panel)
                continue
            points = [(float(trial.params[axis.name]), trial.scores[score]) for trial in trials]
            # Otherwise the line would join trials that differ in other settings too.
            if alone:
                panel.plot(*zip(*sorted(points), strict=True), color=FAINT, linewidth=0.8, zorder=1)
            for trial, point in zip(trials, points, strict=True):
                colour, marker = series[trial.params[choice]] if choice else SERIES[2]
                style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3.6}
                panel.plot(*point, linestyle="none", clip_on=False, **style)
            panel.plot(*max(points, key=itemgetter(1)), **RING)
            _set_up_axis(panel, "x", axis)
            bottom, top = _find_range(trials, score, least)
            panel.set_ylim(bottom - 0.08 * (top - bottom), top + 0.08 * (top - bottom))
            panel.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            panel.grid(axis="y", color=GRID, linewidth=0.6)
    return figure


def draw_heat_map(finished_trials: Sequence[FinishedTrial], x: Axis, y: Axis, scores: Panels) -> Figure:
    """Draw scores over two settings, one panel per score: a dot in the colour of its score for each trial.

    Of trials at the same place, which differ in other settings, the best covers the others. The best of all
    has a ring.

    Args:
        finished_trials: the finished trials.
        x: the setting of the x axis.
        y: the setting of the y axis.
        scores: the panels.
    """
    margins = Margins(left=0.5, right=0.55, head=0.26, gap=0.85)
    with paper_style():
        figure, places = create_panels(
            len(scores), len(scores), 2.4, margins=margins, legend=[_build_best_entry()]
        )
        for panel, (score, least) in zip(places, scores.items(), strict=True):
            panel.set_title(score)
            trials = [trial for trial in finished_trials if score in trial.scores]
            if not trials:
                _write_no_score(panel)
                continue
            _set_up_axis(panel, "x", x)
            _set_up_axis(panel, "y", y)
            low, high = _find_range(trials, score, least)
            dot_style: dict[str, Any] = {
                "s": 60,
                "cmap": "viridis",
                "vmin": low,
                "vmax": high,
                "clip_on": False,
            }
            # Matplotlib draws dots in their order, so that the best one at a place is on top.
            upwards = sorted(trials, key=lambda trial: trial.scores[score])
            along_x, along_y = ([trial.params[axis.name] for trial in upwards] for axis in (x, y))
            dots = panel.scatter(along_x, along_y, c=[trial.scores[score] for trial in upwards], **dot_style)
            best = max(trials, key=lambda trial: trial.scores[score])
            panel.plot([best.params[x.name]], [best.params[y.name]], **RING)
            scale = figure.colorbar(dots, cax=panel.inset_axes((1.04, 0, 0.045, 1)), ticks=MaxNLocator(5))
            scale.outline.set_visible(False)
    return figure


def _write_no_score(panel: Axes) -> None:
    """Write that no trial has the score of a panel."""
    panel.set_yticks([])
    write_reason(panel, "no trial has this score")


def _set_up_axis(panel: Axes, name: Literal["x", "y"], axis: Axis) -> None:
    """Lay a setting along the x or the y axis of a panel."""
    scale = "log" if axis.log else "linear"
    panel.set(**{f"{name}scale": scale, f"{name}lim": (axis.low, axis.high), f"{name}label": axis.name})
    along = panel.xaxis if name == "x" else panel.yaxis
    along.set_major_locator(
        LogLocator(subs=(1, 2, 5)) if axis.log else MaxNLocator(5, integer=axis.is_integer)
    )
    along.set_major_formatter("{x:g}")
    along.set_minor_locator(NullLocator())


def _find_range(
    trials: Sequence[FinishedTrial], score: str, least: tuple[float, float] | None
) -> tuple[float, float]:
    """Find the least and greatest score, with room around a single value."""
    values = [*(trial.scores[score] for trial in trials), *(least or ())]
    low, high = min(values), max(values)
    # A range without width has no middle colour, and no axis.
    return (low, high) if low < high else (low - 0.05, high + 0.05)


def _build_best_entry() -> Line2D:
    """Build the legend's entry of the ring."""
    return Line2D([], [], label="the best", **RING)
