"""The cost of a target score: rounds, and bytes sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedgrid.tracking.figures.panels import NO_RUN, Margins, named_rows, panels, say
from fedgrid.tracking.figures.style import FAINT, GRID, INK, SMALL, Style, paper_style, styles
from fedgrid.tracking.scoring.study import Result, Scenario, Study

SHARE = 0.95
"""Target as a share of the best last score in the scenario."""
NAMES = {
    "personalised_f1": "personalised F1 (own classes)",
    "published_pf1": "PF1 (union of classes, as published)",
}
MEGABYTE = 1e6
SPREAD = 0.3
"""Share of a row's height over which its runs are spread to either side."""


@dataclass(frozen=True)
class Cost:
    """The cost of one run, infinite if it never reaches the target."""

    rounds: float
    megabytes: float
    """NaN if unknown."""


def cost_to_target(study: Study, *, target: float | None = None) -> Figure:
    """Draw the rounds, and the megabytes sent up and down, until the personalised F1 reaches a target.

    There is one row per algorithm, one dot per run, and a bar at the median; the number of runs that never
    reach the target is at the right. F1 is the mean over clients, over the classes in their test sets; if it
    is unknown for a run, the published F1 over the union of classes is used for all. By default the target
    is 95 % of the best last score (mean over seeds) of any algorithm in the scenario but references. There is
    no panel of bytes if those of a run are unknown.
    """
    curve = _curve(study.finished)
    targets = _targets(study, curve) if target is None else dict.fromkeys(study.scenarios, target)
    costs = {
        algorithm: [
            _cost(result, curve, targets.get(result.run.scenario, np.inf))
            for result in study.where(algorithm=algorithm).finished
            if _is_known(result, curve)
        ]
        for algorithm in study.algorithms
    }
    known = [cost for of_algorithm in costs.values() for cost in of_algorithm]
    axis = {"rounds": "rounds"}
    if known and not any(np.isnan(cost.megabytes) for cost in known):
        axis["megabytes"] = "sent up and down, MB"
    with paper_style():
        labels, left, height = named_rows(study.algorithms)
        margins = Margins(left=left, right=0.62, head=0.42, gap=0.75)
        figure, row = panels(len(axis), len(axis), max(0.6, (height + 0.05) * len(labels)), margins=margins)
        for axes, (name, label) in zip(row, axis.items(), strict=True):
            values = {algorithm: [getattr(cost, name) for cost in costs[algorithm]] for algorithm in costs}
            _draw(axes, values, styles(study.algorithms))
            axes.set_xlabel(label)
        row[0].set_yticks(range(len(labels)), labels)
        goal = f"{target:g}" if target is not None else f"{SHARE * 100:.0f} % of the scenario's best"
        text = f"until {NAMES[curve]}\nreaches {goal} (bars: medians)"
        figure.text(0.01, 1 - 0.06 / figure.get_figheight(), text, va="top")
        if not known:
            say(row[0], "no F1 was recorded" if study.finished else NO_RUN)
    return figure


def _curve(results: Sequence[Result]) -> str:
    right, published = NAMES
    lacking = (result for result in results if not _is_known(result, right))
    return published if any(_is_known(result, published) for result in lacking) else right


def _is_known(result: Result, curve: str) -> bool:
    return not np.isnan(result.curves[curve]).all()


def _targets(study: Study, curve: str) -> dict[Scenario, float]:
    best: dict[Scenario, float] = {}
    for (scenario, _), cell in study.competitors.cells().items():
        final = [result.last(curve) for result in cell.finished if _is_known(result, curve)]
        if final:
            best[scenario] = max(best.get(scenario, -np.inf), SHARE * float(np.mean(final)))
    return best


def _cost(result: Result, curve: str, target: float) -> Cost:
    sent_R = result.curves["bytes"] / MEGABYTE
    unknown = np.isnan(sent_R[-1])
    there = np.flatnonzero(result.curves[curve] >= target)
    if not len(there):
        return Cost(np.inf, np.nan if unknown else np.inf)
    return Cost(float(result.round_R[there[0]]), np.nan if unknown else float(sent_R[there[0]]))


def _draw(axes: Axes, values: Mapping[str, Sequence[float]], style: Mapping[str, Style]) -> None:
    axes.set_ylim(max(1, len(values)) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    for row, (algorithm, of_runs) in enumerate(values.items()):
        offsets = np.linspace(-SPREAD, SPREAD, len(of_runs)) if len(of_runs) > 1 else [0.0] * len(of_runs)
        dots = [(x, row + offset) for x, offset in zip(of_runs, offsets, strict=True) if np.isfinite(x)]
        marker = {**style[algorithm].of_marker, "alpha": 0.7, "markeredgewidth": 0.6, "markersize": 3.4}
        axes.plot([x for x, _ in dots], [y for _, y in dots], linestyle="none", label=algorithm, **marker)
        if len(of_runs) > 1 and np.isfinite(middle := float(np.median(of_runs))):
            axes.vlines(middle, row - 0.42, row + 0.42, color=INK, linewidth=1.2)
        never = len(of_runs) - len(dots)
        note = f"never: {never}" if never else "" if of_runs else "no run"
        beside = axes.get_yaxis_transform()
        axes.text(1.02, row, note, transform=beside, va="center", fontsize=SMALL, color=FAINT)
    axes.set_xlim(0, 1.04 * max(axes.dataLim.x1, 1.0))
