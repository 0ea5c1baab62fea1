"""Scores by round, one line per algorithm; and loss and norms of a centralised training by epoch.

Shapes: S runs, R rounds, E epochs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedgrid.arguments import check_arguments, check_choice
from fedgrid.tracking.arrays import Array, mean_without_nan
from fedgrid.tracking.figures.panels import (
    FIFTHS,
    NO_RUN,
    Margins,
    build_legend_entries,
    create_panels,
    draw_band,
    set_split_title,
    set_up_rounds,
    share_y,
    write_reason,
)
from fedgrid.tracking.figures.style import GRID, HUES, INK, SMALL, Style, choose_styles, paper_style
from fedgrid.tracking.names import AS_PUBLISHED
from fedgrid.tracking.scoring.measures import format_heading, list_own_curves
from fedgrid.tracking.scoring.study import Study, require_one_value, stack_by_round


@dataclass(frozen=True)
class PanelRow:
    """A row of panels: a curve of `tracking.scoring.scores.compute_curves`, and the label of its y axis."""

    curve: str
    label: str
    kind: Literal["share", "clients", "amount"] = "share"
    """Whether the y axis ends at 1, at the number of clients, or above the largest value."""


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure by round: its rows of panels and its words in a report."""

    label: str
    """Its name among the alternatives in a report."""
    title: str
    caption: str
    rows: tuple[PanelRow, ...]
    is_optional: bool = True
    """Whether a report leaves it out if no run has its first curve."""


MODELS_CAPTION = (
    "of the clusters' models, mean over clients: on the clients' own test sets (personalised), and on the "
    "server's (generalised)."
)
GAP = "Mean over clients of the absolute difference between personalised"


KINDS: Mapping[str, FigureKind] = {
    "accuracy": FigureKind(
        "accuracy",
        "Accuracy",
        f"Accuracy {MODELS_CAPTION}",
        (
            PanelRow("personalised_accuracy", "personalised accuracy"),
            PanelRow("generalised_accuracy", "generalised accuracy"),
        ),
        is_optional=False,
    ),
    "r2": FigureKind(
        "R2",
        "R2",
        f"R2 {MODELS_CAPTION}",
        (PanelRow("personalised_r2", "personalised R2"), PanelRow("generalised_r2", "generalised R2")),
    ),
    "f1": FigureKind(
        "F1",
        "F1",
        f"Macro F1 {MODELS_CAPTION}",
        (PanelRow("personalised_f1", "personalised F1"), PanelRow("generalised_f1", "generalised F1")),
        is_optional=False,
    ),
    "f1-published": FigureKind(
        f"F1 {AS_PUBLISHED}",
        "F1",
        "F1 over the union of true and predicted classes; generalised is of the local models.",
        (PanelRow("published_pf1", "PF1, as published"), PanelRow("published_gf1", "GF1, as published")),
    ),
    "fairness": FigureKind(
        "fairness",
        "Fairness",
        "Least accuracy of a cluster's model on the own test set of one of its clients; Jain's index of the "
        "accuracies of all clients, 1 if all are equal.",
        (
            PanelRow("worst_client_accuracy", "worst client's accuracy"),
            PanelRow("jain_index", "Jain's index"),
        ),
        is_optional=False,
    ),
    "global": FigureKind(
        "global model",
        "Accuracy of the global model",
        "Accuracy of the algorithm's global model: on the server's test set, and on the clients' own, mean "
        "over clients.",
        (
            PanelRow("global_accuracy", "accuracy, server's images"),
            PanelRow("global_own_accuracy", "accuracy, own images"),
        ),
    ),
    "gap": FigureKind(
        "learning gap",
        "Learning gap",
        f"{GAP} and generalised accuracy, both of the clusters' models.",
        (PanelRow("learning_gap", "learning gap (accuracy)"),),
    ),
    "gap-loss": FigureKind(
        "gap in loss",
        "Learning gap in loss",
        f"{GAP} and generalised loss (cross-entropy), both of the clusters' models.",
        (PanelRow("learning_gap_loss", "learning gap (loss, nats)", "amount"),),
    ),
    "gap-published": FigureKind(
        f"gap {AS_PUBLISHED}",
        "Learning gap",
        f"{GAP} accuracy and accuracy of the local model on the server's test set (the notebooks' DIST).",
        (PanelRow("published_learning_gap", "learning gap (DIST)"),),
    ),
    "ari": FigureKind(
        "ARI",
        "ARI",
        "Adjusted Rand index of each round's partition.",
        (PanelRow("ari", "adjusted Rand index"),),
    ),
    "sizes": FigureKind(
        "sizes of clusters",
        "Sizes of clusters",
        "Number of clients in the smallest cluster; below, if there are any, of clients whose cluster has no "
        "other client.",
        (
            PanelRow("smallest_cluster", "smallest cluster, clients", "clients"),
            PanelRow("clients_alone", "clients alone", "clients"),
        ),
    ),
    "silhouette": FigureKind(
        "silhouette",
        "Silhouette",
        "Mean silhouette of each round's partition, on the distances that the algorithm uses; it needs no "
        "hidden groups, and is missing for one cluster.",
        (PanelRow("silhouette", "silhouette"),),
    ),
}


@check_arguments()
def per_round(study: Study, kind: str) -> Figure:
    """Draw scores by round, with a row of panels for each score and a panel for each split.

    Lines are means over the seeds; bands reach one standard deviation (n - 1) of the seeds to either side. A
    row that no run recorded is left out.

    Args:
        study: runs of one data set and number of clients.
        kind: a key of `KINDS`, or a number that an algorithm of the study declares of its own.
            `ari` is Figure 1 of the OCFL conference paper; `gap-loss` the learning gap of
            Definition 8 of the journal paper, `gap-published` its notebooks' DIST; `silhouette` and `global`
            are Figures 5b and 5a of Bettinelli et al. `sizes` leaves out the clients alone if
            none ever is. `f1` is over the classes in the test set, and as published if no run has that, as in
            the authors' archive.

    Raises:
        ValueError: there is no such kind, or the study has several data sets or numbers of clients.
    """
    check_choice("kind", kind, (*KINDS, *list_own_curves(study)))
    require_one_value(study, "dataset", "clients")
    candidates = KINDS[kind].rows if kind in KINDS else (PanelRow(kind, format_heading(kind), "amount"),)
    rows = [row for row in candidates if study.has(row.curve)]
    if kind == "f1" and not rows:
        rows = [row for row in KINDS["f1-published"].rows if study.has(row.curve)]
    # One empty row stays, with the reason why it is empty.
    rows = rows or [*candidates[:1]]
    # The second row would be a line at 0.
    if kind == "sizes" and not any((result.curves["clients_alone"] > 0).any() for result in study.finished):
        rows = rows[:1]
    splits = study.splits
    clients = study.blocks[0][1] if study.blocks else 0
    columns = max(1, len(splits))
    with paper_style():
        style = choose_styles(study.algorithms)
        figure, places = create_panels(len(rows) * columns, columns, 1.35, legend=build_legend_entries(style))
        for start, score in enumerate(rows):
            row = places[start * columns : (start + 1) * columns]
            for axes, split in zip(row, splits, strict=False):
                _draw_panel(axes, study.with_values(split=split), score, style)
            _scale_row(row, score, clients)
        for axes, split in zip(places, splits, strict=False):
            set_split_title(axes, split)
        for axes in places[:-columns]:
            axes.xaxis.set_visible(False)
        if not splits:
            write_reason(places[0], NO_RUN)
    return figure


def compute_deviation(values_SR: Array) -> Array:
    """Compute the standard deviation (n - 1) of each column without its NaNs, 0 of fewer than two values."""
    count_R = (~np.isnan(values_SR)).sum(axis=0)
    squares_R = np.nansum((values_SR - mean_without_nan(values_SR.T)) ** 2, axis=0)
    # One value has squares of 0: the divisor only must not be 0 too.
    return np.asarray(np.sqrt(squares_R / np.maximum(count_R - 1, 1)))


def _draw_panel(axes: Axes, study: Study, score: PanelRow, style: Mapping[str, Style]) -> None:
    """Draw the lines of one panel: means over seeds, with a band of their deviation."""
    for position, (algorithm, own_style) in enumerate(style.items()):
        results = [
            run for run in study.with_values(algorithm=algorithm).finished if score.curve in run.curves
        ]
        if not results:
            continue
        round_R, values_SR = stack_by_round(results, score.curve)
        # A loss can be infinite in a run that diverges; one such value would hide all others of the panel.
        values_SR = np.where(np.isfinite(values_SR), values_SR, np.nan)
        there_R = ~np.isnan(values_SR).all(axis=0)
        if not there_R.any():
            continue
        # Tests may be every few rounds only: the line joins the rounds that have one.
        round_R, values_SR = round_R[there_R], values_SR[:, there_R]
        mean_R, deviation_R = mean_without_nan(values_SR.T), compute_deviation(values_SR)
        # Lines of algorithms that equal FedAvg coincide: their markers alternate, so that each stays visible.
        step = max(len(style), len(round_R) // 4)
        first = (position * step // len(style)) % len(round_R)
        axes.plot(round_R, mean_R, label=algorithm, markevery=(first, step), **own_style.line_settings)
        if deviation_R.any():
            draw_band(axes, round_R, mean_R - deviation_R, mean_R + deviation_R, own_style.colour)
    if axes.lines:
        set_up_rounds(axes, np.unique(np.concatenate([result.round_R for result in study.finished])))
    else:
        write_reason(axes, f"no {score.label} was recorded" if study.finished else NO_RUN)


def _scale_row(row: Sequence[Axes], score: PanelRow, clients: int) -> None:
    """Give a row a common y axis, which ends at 1, at the number of clients, or above the largest value.

    Deviations may reach beyond these ends, where there are no scores; there a band is cut off.
    """
    drawn = [axes for axes in row if axes.lines]
    # A little above the end of the scale, so that a line at the limit is not cut in half.
    ticks: Sequence[float] = FIFTHS
    high = 1.03
    if score.kind != "share":
        largest = max((axes.dataLim.y1 for axes in drawn), default=0.0)
        high = 1.03 * (clients if score.kind == "clients" else largest) or 1.0
        proposed = MaxNLocator(5, steps=[1, 2, 5, 10], integer=score.kind == "clients").tick_values(0, high)
        ticks = [float(tick) for tick in proposed if tick <= high]
    share_y(row, high, ticks, score.label)
    least = min((float(np.min(line.get_ydata())) for axes in drawn for line in axes.lines), default=0.0)
    for axes in row:
        axes.set_ylim(bottom=min(0.0, least - 0.03 * high))


NORMS = {
    "loss": "loss\nconverged in epoch {cooldown}",
    "update_l2": "L2 norm of the update\nwith the epsilons proposed",
    "weights_l1_change": "change of the weights' L1 norm\nas published",
}
"""Column -> title of its panel."""


@check_arguments()
def update_norms(epochs: Mapping[str, Array], *, epsilon_1: float, epsilon_2: float, cooldown: int) -> Figure:
    """Draw the loss, the norm of the update, and the number published in its place, by epoch.

    The two norms have unrelated scales, so that the epsilons are drawn in only one panel.

    Args:
        epochs: the columns of `NORMS`, each of shape (E,).
        epsilon_1: the first threshold of Sattler's test, drawn as a line.
        epsilon_2: the second threshold.
        cooldown: epoch in which the loss has converged, drawn as a line.
    """
    epoch_E = np.arange(1, len(epochs["loss"]) + 1)
    with paper_style():
        figure, row = create_panels(len(NORMS), len(NORMS), 1.35, margins=Margins(gap=0.5))
        for axes, (column, heading) in zip(row, NORMS.items(), strict=True):
            axes.set_title(heading.format(cooldown=cooldown))
            axes.plot(epoch_E, epochs[column], color=HUES[0], marker="o", markersize=2.4)
            axes.grid(axis="y", color=GRID, linewidth=0.6)
            axes.set_ylim(bottom=min(0.0, 1.1 * float(np.min(epochs[column]))))
            set_up_rounds(axes, epoch_E)
            axes.set_xlabel("epoch")
        line: dict[str, Any] = {"color": INK, "linewidth": 0.8, "linestyle": (0, (4, 3)), "zorder": 1.5}
        row[0].axvline(cooldown, **line)
        placement: dict[str, Any] = {
            "transform": row[1].get_yaxis_transform(),
            "va": "center",
            "fontsize": SMALL + 1,
        }
        for name, epsilon in (("$\\varepsilon_1$", epsilon_1), ("$\\varepsilon_2$", epsilon_2)):
            row[1].axhline(epsilon, **line)
            row[1].text(1.02, epsilon, name, parse_math=True, **placement)
    return figure
