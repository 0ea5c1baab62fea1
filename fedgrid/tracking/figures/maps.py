"""Cluster maps: the cluster of each client by round, one pixel per client and round.

Shapes: K clients, R rounds.
"""

from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.figures.panels import (
    LINE,
    NO_RUN,
    Margins,
    number_rounds,
    panels,
    rule,
    say,
)
from fedgrid.tracking.figures.style import INK, paper_style
from fedgrid.tracking.scoring.study import Study, require_one

HUES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MIXED = "#9A9A9A"
GOLDEN = 0.382
"""Golden section: its multiples modulo 1 are distinct, and successive ones far apart."""
PANELS_A_ROW = 4
TITLE = 28
"""Letters of a name that fit in one line above a panel."""
NAMED_GROUPS = 6
"""Largest number of hidden groups with room for their names."""


def cluster_maps(study: Study) -> Figure:
    """Draw the maps of a scenario's first seed, one panel per algorithm, with the ARI of the last partition.

    Colours are those of `draw_map`, so that equal partitions have equal colours.

    Raises:
        ValueError: if the study has several scenarios.
    """
    require_one(study, "dataset", "clients", "split")
    algorithms = study.algorithms
    first_seed = [result for result in study.finished if result.run.seed == study.runs[0].seed]
    results = {result.run.algorithm: result for result in first_seed}
    scores = {name: f"\nARI {result.last('ari'):.2f}" for name, result in results.items()}
    titles = [fill(name, TITLE) + scores.get(name, "") for name in algorithms]
    head = 0.08 + LINE * max((title.count("\n") + 1 for title in titles), default=1)
    num_clients = study.runs[0].clients if study.runs else 0
    with paper_style():
        figure, places = panels(
            len(algorithms),
            PANELS_A_ROW,
            min(1.6, max(0.8, 0.05 * num_clients)),
            margins=Margins(left=0.6, head=head, row_gap=head + 0.04),
            legend=_legend(next(iter(results.values())).truth_K) if results else [],
        )
        if not algorithms:
            say(places[0], NO_RUN)
        for place, (axes, algorithm) in enumerate(zip(places, algorithms, strict=False)):
            axes.set_title(titles[place])
            axes.yaxis.set_visible(place % PANELS_A_ROW == 0)
            axes.xaxis.set_visible(place + PANELS_A_ROW >= len(algorithms))
            axes.set_yticks([])
            if algorithm not in results:
                say(axes, NO_RUN)
                continue
            found = results[algorithm]
            draw_map(axes, found.labels_RK, found.truth_K, found.round_R)
            number_rounds(axes, found.round_R)
            if place % PANELS_A_ROW == 0:
                name_groups(axes, found.truth_K)
    return figure


def draw_map(axes: Axes, labels_RK: Array, truth_K: Array, round_R: Array) -> None:
    """Draw the cluster of each client by round; hidden groups are adjacent, with lines between them.

    A cluster has the hue of the hidden group of the majority of its clients, grey without a majority, and a
    shade of its own.
    """
    order_K = by_group(truth_K)
    last = len(truth_K) - 0.5
    axes.imshow(
        _coloured(labels_RK[:, order_K].T, truth_K[order_K]),
        extent=(round_R[0] - 0.5, round_R[-1] + 0.5, last, -0.5),
        aspect="auto",
        interpolation="none",
    )
    rule_groups(axes, truth_K)
    axes.set_ylim(last, -0.5)
    axes.spines[:].set_visible(False)


def rule_groups(axes: Axes, truth_K: Array) -> None:
    """Draw lines between the hidden groups."""
    rule(axes, _edges(truth_K)[1:-1] - 0.5, colors=INK, linewidths=1.2, zorder=2)


def name_groups(axes: Axes, truth_K: Array) -> None:
    """Label the hidden groups on the y axis."""
    edges = _edges(truth_K)
    if len(edges) - 1 <= NAMED_GROUPS:
        names = [f"group {truth}" for truth in np.unique(truth_K)]
        axes.set_yticks((edges[:-1] + edges[1:] - 1) / 2, names)
        axes.tick_params(axis="y", length=0)


def _legend(truth_K: Array) -> list[Patch]:
    groups = np.unique(truth_K).tolist()
    if len(groups) > NAMED_GROUPS:
        return []
    hues = {f"most of it from group {group}": _hue(np.array([group]), truth_K) for group in groups}
    return [Patch(color=hue, label=label) for label, hue in {**hues, "from several groups": MIXED}.items()]


def by_group(truth_K: Array) -> Array:
    """Return the clients in the order of maps: by hidden group."""
    return np.argsort(truth_K, kind="stable")


def _edges(truth_K: Array) -> Array:
    """Return the first place of each group in the order of `by_group`, then K."""
    return np.concatenate([[0], np.cumsum(np.unique(truth_K, return_counts=True)[1])])


def _coloured(labels_KR: Array, truth_K: Array) -> Array:
    """Return the picture: red, green and blue from 0 to 1, shape (K, R, 3)."""
    picture = np.empty((*labels_KR.shape, 3))
    shades: dict[str, dict[int, int]] = {}
    for column in range(labels_KR.shape[1]):
        labels_K = labels_KR[:, column]
        if column and np.array_equal(labels_K, labels_KR[:, column - 1]):
            picture[:, column] = picture[:, column - 1]
            continue
        for label in dict.fromkeys(labels_K.tolist()):
            hue = _hue(truth_K[labels_K == label], truth_K)
            of_hue = shades.setdefault(hue, {})
            shade = of_hue.setdefault(label, len(of_hue))
            picture[labels_K == label, column] = lighter(hue, 0.75 * (shade * GOLDEN % 1))
    return picture


def _hue(members: Array, truth_K: Array) -> str:
    groups, counts = np.unique(members, return_counts=True)
    if 2 * counts.max() <= len(members):
        return MIXED
    return HUES[int(np.searchsorted(np.unique(truth_K), groups[counts.argmax()])) % len(HUES)]


def lighter(colour: str, share: float | Array) -> Array:
    """Return a colour, mixed with a share of white: red, green and blue from 0 to 1, shape (3,).

    For shares of shape (L, 1) the colours have shape (L, 3).
    """
    return 1 - (1 - np.array(to_rgb(colour))) * (1 - share)
