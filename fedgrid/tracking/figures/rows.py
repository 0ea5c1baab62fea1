"""Figures with a row for each algorithm: cost of a target, critical differences, segments between scores.

The critical-difference diagram has average ranks, and groups without a significant difference. Shapes: S
runs, E = 2 ends of a segment.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count, product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fedgrid.arguments import check_arguments
from fedgrid.tracking.arrays import mean_without_nan
from fedgrid.tracking.figures.panels import (
    FIFTHS,
    NO_RUN,
    Margins,
    create_panels,
    draw_rules,
    label_row,
    set_split_title,
    wrap_names,
    write_reason,
)
from fedgrid.tracking.figures.style import (
    FAINT,
    GRID,
    INK,
    PAGE,
    SMALL,
    PaperFigure,
    Style,
    choose_styles,
    paper_style,
)
from fedgrid.tracking.scoring.cost import DEFAULT_TARGET, Target, adapt_target, choose_unit, compute_costs
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study, require_one_value

AXIS = 0.42
"""Inches from the top of the figure to the line of the ranks."""
BAR = 0.09
"""Inches from bar to bar."""


@check_arguments()
def cost_to_target(study: Study, target: Target = DEFAULT_TARGET) -> Figure:
    """Draw the rounds, and the traffic up and down, until a score reaches a target.

    There is one row per algorithm, one dot per run, and a bar at the median; the number of runs that never
    reach the target is at the right. There is no panel of traffic if that of a run is unknown.
    """
    target = adapt_target(study, target)
    by_algorithm = compute_costs(study, target)
    every_cost = [cost for algorithm_costs in by_algorithm.values() for cost in algorithm_costs]
    unit, size = choose_unit(every_cost, target.unit)
    axis = {"rounds": {name: [cost.rounds for cost in own] for name, own in by_algorithm.items()}}
    if every_cost and not any(np.isnan(cost.bytes) for cost in every_cost):
        axis[f"sent up and down, {unit}"] = {
            name: [cost.convert_traffic(target.unit) / size for cost in own]
            for name, own in by_algorithm.items()
        }
    with paper_style():
        labels, left, height = wrap_names(study.algorithms)
        margins = Margins(left=left, right=0.62, head=0.42, gap=0.75)
        figure, row = create_panels(
            len(axis), len(axis), max(0.6, (height + 0.05) * len(labels)), margins=margins
        )
        for axes, (label, values) in zip(row, axis.items(), strict=True):
            _draw_runs(axes, values, choose_styles(study.algorithms))
            axes.set_xlabel(label)
        row[0].set_yticks(range(len(labels)), labels)
        text = f"until {target.score}\nreaches {target.goal} (bars: medians)"
        figure.text(0.01, 1 - 0.06 / figure.get_figheight(), text, va="top")
        if not every_cost:
            write_reason(row[0], f"no {target.score} was recorded" if study.finished else NO_RUN)
    return figure


def _draw_runs(axes: Axes, values: Mapping[str, Sequence[float]], style: Mapping[str, Style]) -> None:
    """Draw a dot for each run, a bar at the median, and the number of runs that never reach the target."""
    axes.set_ylim(max(1, len(values)) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    for row, (algorithm, numbers) in enumerate(values.items()):
        # Runs are spread over 0.3 of the row's height to either side.
        offsets = np.linspace(-0.3, 0.3, len(numbers)) if len(numbers) > 1 else [0.0] * len(numbers)
        dots = [(x, row + offset) for x, offset in zip(numbers, offsets, strict=True) if np.isfinite(x)]
        marker = {**style[algorithm].marker_settings, "alpha": 0.7, "markeredgewidth": 0.6, "markersize": 3.4}
        axes.plot([x for x, _ in dots], [y for _, y in dots], linestyle="none", label=algorithm, **marker)
        if len(numbers) > 1 and np.isfinite(middle := float(np.median(numbers))):
            axes.vlines(middle, row - 0.42, row + 0.42, color=INK, linewidth=1.2)
        never = len(numbers) - len(dots)
        note = f"never: {never}" if never else "" if numbers else "no run"
        placement = axes.get_yaxis_transform()
        axes.text(1.02, row, note, transform=placement, va="center", fontsize=SMALL, color=FAINT)
    axes.set_xlim(0, 1.04 * max(axes.dataLim.x1, 1.0))


@check_arguments()
def critical_difference(
    ranks: Mapping[str, float], cliques: Sequence[Sequence[str]], num_scenarios: int, first: str = "1 is best"
) -> Figure:
    """Draw average ranks on a line, and bars that join algorithms without a significant difference.

    Source: Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006, Figure 1.

    Args:
        ranks: algorithm -> average rank; one whose rank is NaN is left out.
        cliques: groups of algorithms that a bar joins.
        num_scenarios: number of scenarios that the ranks are averaged over.
        first: the meaning of rank 1, `1 is best` by default.
    """
    # NaN is not equal to itself.
    ordered = {name: rank for name, rank in sorted(ranks.items(), key=lambda item: item[1]) if rank == rank}
    bars = _stack_bars([[ordered[name] for name in clique if name in ordered] for clique in cliques])
    labels, width, step = wrap_names([f"{name}  {rank:.2f}" for name, rank in ordered.items()])
    # The names begin below the lowest bar, however many levels of bars there are.
    names_from = AXIS + 0.2 + BAR * (1 + max((level for level, _, _ in bars), default=-1))
    height = names_from + step * max(1, -(-len(ordered) // 2))
    side = width + 0.1
    inches = (PAGE - 2 * side) / max(1, len(ordered) - 1)
    with paper_style():
        figure = PaperFigure(figsize=(PAGE, height))
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, PAGE), ylim=(height, 0))
        axes.axis("off")
        if not ordered:
            write_reason(axes, "no scenario has a result of every algorithm")
            return figure
        places = [side + inches * rank for rank in range(max(2, len(ordered)))]
        plural = "scenario" if num_scenarios == 1 else "scenarios"
        axes.plot([places[0], places[-1]], [AXIS, AXIS], color=INK, linewidth=0.8)
        axes.vlines(places, AXIS - 0.05, AXIS, color=INK, linewidth=0.8)
        for number, place in enumerate(places, start=1):
            axes.text(place, AXIS - 0.08, str(number), ha="center", va="bottom")
        label = f"average rank over {num_scenarios} {plural}, {first}"
        axes.text(PAGE / 2, 0.04, label, ha="center", va="top")
        for level, low, high in bars:
            ends = [side + inches * (low - 1) - 0.04, side + inches * (high - 1) + 0.04]
            y = AXIS + 0.13 + BAR * level
            axes.plot(ends, [y, y], color=INK, linewidth=2.4, solid_capstyle="butt")
        style = choose_styles(list(ranks))
        for position, (name, rank) in enumerate(ordered.items()):
            # Names of the better half hang at the left, the others at the right, the extremes at the top.
            row = min(position, len(ordered) - 1 - position)
            edge = side if position == row else PAGE - side
            x, y = side + inches * (rank - 1), names_from + step * row
            axes.plot([x, x, edge], [AXIS, y, y], color=INK, linewidth=0.7, label=labels[position])
            axes.plot([x], [AXIS], linestyle="none", **style[name].marker_settings)
            offset, align = (-0.06, "right") if edge < PAGE / 2 else (0.06, "left")
            axes.text(edge + offset, y, labels[position], ha=align, va="center")
    return figure


def _stack_bars(cliques: Sequence[Sequence[float]]) -> list[tuple[int, float, float]]:
    """Stack the bars of cliques: level, least and greatest rank of each; bars of a level do not overlap."""
    bars: list[tuple[int, float, float]] = []
    for low, high in sorted((min(ranks), max(ranks)) for ranks in cliques if len(ranks) > 1):
        taken = {level for level, _, end in bars if end >= low}
        # The lowest free level, as bars are sorted by their start: the fewest levels in all.
        bars.append((next(level for level in count() if level not in taken), low, high))
    return bars


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


@check_arguments()
def segments(study: Study, *, published: bool = True) -> Figure:
    """Draw a segment from generalised (open) to personalised (filled) F1, one row per algorithm.

    There is one panel per split and number of clients. Ends are means over rounds, clients and seeds; pale
    bars show the range of the seeds. `published` draws Figure 2 of the OCFL journal paper: F1 over the union
    of classes, and generalisation of the local models before aggregation. Otherwise both ends are of the
    cluster's model, over the classes in the test set.

    Raises:
        ValueError: if the study has several data sets.
    """
    return _draw_segment_panels(study, PUBLISHED if published else RIGHT, Run.mean, "macro F1")


@check_arguments()
def communities(study: Study, *, server: bool = False) -> Figure:
    """Draw a segment from the global model's accuracy (open) to the communities' (filled), as `segments`.

    Both are of the last round, on the test sets of the communities' members, or on the server's. Source:
    Figure 6 of Bettinelli et al.

    Raises:
        ValueError: if the study has several data sets.
    """
    return _draw_segment_panels(study, SERVER if server else MEMBERS, Run.last, "accuracy")


def _draw_segment_panels(
    study: Study, ends: Mapping[str, str], read_end: Callable[[Run, str], float], label: str
) -> Figure:
    """Draw a segment between two curves, of which `of` reads a number of a run."""
    require_one_value(study, "dataset")
    with paper_style():
        style, splits = choose_styles(study.algorithms), study.splits
        labels, left, row_height = wrap_names(study.algorithms)
        legend = [
            Line2D([], [], label=name, color=FAINT, linestyle="none", marker="o", markerfacecolor=face)
            for name, face in zip(ends.values(), ("white", FAINT), strict=True)
        ]
        figure, places = create_panels(
            len(study.blocks) * len(splits),
            len(splits),
            max(0.6, row_height * len(style)),
            margins=Margins(left=left, right=0.28),
            legend=legend,
        )
        for axes, ((_, clients), split) in zip(places, product(study.blocks, splits), strict=False):
            _draw_segments(
                axes, study.with_values(clients=clients, split=split), style, list(ends), read_end, label
            )
            if split == splits[0]:
                axes.set_yticks(range(len(labels)), labels)
            if split == splits[-1]:
                label_row(axes, f"{clients} clients")
        for axes, split in zip(places, splits, strict=False):
            set_split_title(axes, split)
        for axes in places[-len(splits) :]:
            axes.set_xticks(FIFTHS, ["0", ".2", ".4", ".6", ".8", "1"])
            axes.set_xlabel(label)
        if not study.runs:
            write_reason(places[0], NO_RUN)
    return figure


def _draw_segments(
    axes: Axes,
    study: Study,
    style: Mapping[str, Style],
    curves: Sequence[str],
    read_end: Callable[[Run, str], float],
    label: str,
) -> None:
    """Draw the segments of one panel, with pale bars over the range of the seeds."""
    axes.set(xlim=(-0.03, 1.03), ylim=(len(style) - 0.5, -0.5), xticks=[], yticks=[])
    draw_rules(axes, FIFTHS, upright=True)
    ranges: list[tuple[tuple[float, int], tuple[float, int]]] = []
    colours: list[str] = []
    for row, (algorithm, own_style) in enumerate(style.items()):
        results = study.with_values(algorithm=algorithm).finished
        ends_ES = np.array([[read_end(result, curve) for result in results] for curve in curves])
        if np.isnan(ends_ES).all():
            continue
        ends = mean_without_nan(ends_ES), [row, row]
        line = {**own_style.line_settings, "markersize": 4.5, "linewidth": 1.4}
        axes.plot(*ends, label=algorithm, markevery=[1], **{**line, "markerfacecolor": own_style.colour})
        axes.plot(*ends, markevery=[0], **{**line, "markerfacecolor": "white", "linestyle": "none"})
        for low, high in zip(np.fmin.reduce(ends_ES, axis=1), np.fmax.reduce(ends_ES, axis=1), strict=True):
            if low < high:
                ranges.append(((low, row), (high, row)))
                colours.append(own_style.colour)
    bars = LineCollection(ranges, colors=colours, alpha=0.3, linewidths=4, zorder=1)
    axes.add_collection(bars, autolim=False)
    if not study.finished:
        write_reason(axes, NO_RUN)
    elif not axes.lines:
        write_reason(axes, f"no {label.removeprefix('macro ')} was recorded")
