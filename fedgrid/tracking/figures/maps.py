"""Maps of clients by hidden group: the cluster of each by round, and the images that each holds of a class.

Shapes: K clients, R rounds, L classes.
"""

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fedgrid.arguments import check_arguments
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.figures.panels import (
    FIFTHS,
    LETTER,
    LINE,
    MAX_LETTERS,
    NO_RUN,
    Margins,
    create_panels,
    draw_rules,
    set_up_rounds,
    write_reason,
)
from fedgrid.tracking.figures.style import HUES, INK, paper_style
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study, require_one_value

MIXED = "#9A9A9A"
PANELS_A_ROW = 4
MAX_NAMED_GROUPS = 6
"""Largest number of hidden groups with room for their names."""
MAX_GROUP_LETTERS = 9
"""Largest number of letters of a group's name in a line next to a map."""


@check_arguments()
def cluster_maps(study: Study) -> Figure:
    """Draw the maps of a scenario's first seed, with one panel for each algorithm.

    The title has the ARI of the last partition, or its clusters if there are no hidden groups. Colours are
    those of `draw_map`, so that equal partitions have equal colours.

    Raises:
        ValueError: if the study has several scenarios.
    """

    def draw_panel(axes: Axes, run: Run, *, is_first: bool) -> None:
        """Draw the map of one run."""
        draw_map(axes, run.labels_RK, run.truth_K, run.round_R)
        if is_first:
            name_groups(axes, run.truth_K, run.group_names)

    def format_score(run: Run) -> str:
        """Format the ARI of the last partition, or its number of clusters."""
        ari = run.last("ari")
        return f"{run.last('clusters'):.0f} clusters" if np.isnan(ari) else f"ARI {ari:.2f}"

    return _draw_by_algorithm(study, format_score, draw_panel, "most of it from ")


@check_arguments()
def client_curves(study: Study) -> Figure:
    """Draw the personalised accuracy of each client by round, for a scenario's first seed.

    There is one panel per algorithm. A line has the hue of the client's hidden group; the title names the
    client that ends lowest.

    Raises:
        ValueError: if the study has several scenarios.
    """

    def format_lowest(run: Run) -> str:
        """Format the client that ends lowest, and its accuracy."""
        last_K = run.accuracy_RK[-1]
        client = int(np.nanargmin(last_K)) if not np.isnan(last_K).all() else 0
        return f"lowest: client {run.client_K[client]}, {last_K[client]:.2f}"

    def draw_panel(axes: Axes, run: Run, *, is_first: bool) -> None:
        """Draw a line for each client of one run."""
        for accuracy_R, group in zip(run.accuracy_RK.T, run.truth_K, strict=True):
            there_R = ~np.isnan(accuracy_R)
            hue = _choose_hue(np.array([group]), run.truth_K)
            axes.plot(run.round_R[there_R], accuracy_R[there_R], color=hue, linewidth=0.6)
        axes.set_ylim(0, 1.03)
        draw_rules(axes, FIFTHS)
        if is_first:
            axes.set_yticks(FIFTHS)
            axes.set_ylabel("accuracy")

    return _draw_by_algorithm(study, format_lowest, draw_panel)


def _draw_by_algorithm(
    study: Study, describe: Callable[[Run], str], draw: Callable[..., None], group_prefix: str = ""
) -> Figure:
    """Draw a panel for each algorithm, of its run with the first seed.

    Args:
        study: runs of one scenario.
        describe: formats the line below an algorithm's name.
        draw: draws a panel.
        group_prefix: stands before a group's name in the legend, which then has the mixed clusters too; empty
            by default.
    """
    require_one_value(study, "dataset", "clients", "split")
    algorithms = study.algorithms
    # One seed: the numbers of clusters, and the clients of a group, mean something else in each.
    first_seed = [result for result in study.finished if result.seed == study.runs[0].seed]
    results = {result.algorithm: result for result in first_seed}
    subtitles = {name: f"\n{describe(result)}" for name, result in results.items()}
    titles = [fill(name, 28) + subtitles.get(name, "") for name in algorithms]
    head = 0.08 + LINE * max((title.count("\n") + 1 for title in titles), default=1)
    num_clients = study.runs[0].clients if study.runs else 0
    with paper_style():
        figure, places = create_panels(
            len(algorithms),
            PANELS_A_ROW,
            min(1.6, max(0.8, 0.05 * num_clients)),
            margins=Margins(left=0.6, head=head, row_gap=head + 0.04),
            legend=_build_legend(next(iter(results.values())), group_prefix) if results else [],
        )
        if not algorithms:
            write_reason(places[0], NO_RUN)
        for place, (axes, algorithm) in enumerate(zip(places, algorithms, strict=False)):
            axes.set_title(titles[place])
            axes.yaxis.set_visible(place % PANELS_A_ROW == 0)
            axes.xaxis.set_visible(place + PANELS_A_ROW >= len(algorithms))
            axes.set_yticks([])
            if algorithm not in results:
                write_reason(axes, NO_RUN)
                continue
            draw(axes, results[algorithm], is_first=place % PANELS_A_ROW == 0)
            set_up_rounds(axes, results[algorithm].round_R)
    return figure


def draw_map(axes: Axes, labels_RK: Array, truth_K: Array, round_R: Array) -> None:
    """Draw the cluster of each client by round; hidden groups are adjacent, with lines between them.

    A cluster has the hue of the hidden group of the majority of its clients, grey without a majority, and a
    shade of its own.

    Args:
        axes: the panel.
        labels_RK: the cluster of each client in each round.
        truth_K: the hidden groups.
        round_R: the numbers of the rounds.
    """
    order_K = order_by_group(truth_K)
    # Half a client beyond the first and last row: matplotlib puts a pixel's centre at its number.
    last = len(truth_K) - 0.5
    axes.imshow(
        _colour_clusters(labels_RK[:, order_K].T, truth_K[order_K]),
        extent=(round_R[0] - 0.5, round_R[-1] + 0.5, last, -0.5),
        aspect="auto",
        interpolation="none",
    )
    draw_group_rules(axes, truth_K)
    axes.set_ylim(last, -0.5)
    axes.spines[:].set_visible(False)


def draw_group_rules(axes: Axes, truth_K: Array) -> None:
    """Draw lines between the hidden groups."""
    draw_rules(axes, _find_group_edges(truth_K)[1:-1] - 0.5, colors=INK, linewidths=1.2, zorder=2)


def name_groups(axes: Axes, truth_K: Array, given: Mapping[int, str]) -> None:
    """Label the hidden groups on the y axis; `given` has the data set's names of them, if it has any."""
    edges = _find_group_edges(truth_K)
    if len(edges) - 1 <= MAX_NAMED_GROUPS:
        names = [
            fill(format_group_name(truth, given), MAX_GROUP_LETTERS) for truth in np.unique(truth_K).tolist()
        ]
        axes.set_yticks((edges[:-1] + edges[1:] - 1) / 2, names)
        axes.tick_params(axis="y", length=0)


def format_group_name(group: int, given: Mapping[int, str]) -> str:
    """Format the name of a hidden group: `photo`, or `group 3` where it has a number only."""
    name = given.get(group, str(group))
    return f"group {name}" if name.isdigit() else name


def _build_legend(run: Run, group_prefix: str) -> list[Patch]:
    """Build the entries of the hidden groups, none if they are too many to name."""
    groups = np.unique(run.truth_K).tolist()
    if len(groups) > MAX_NAMED_GROUPS:
        return []
    names = {group: f"{group_prefix}{format_group_name(group, run.group_names)}" for group in groups}
    hues = {
        fill(name, MAX_LETTERS): _choose_hue(np.array([group]), run.truth_K) for group, name in names.items()
    }
    if group_prefix:
        hues["from several groups"] = MIXED
    return [Patch(color=hue, label=label) for label, hue in hues.items()]


def order_by_group(truth_K: Array) -> Array:
    """Order the clients as maps do: by hidden group."""
    return np.argsort(truth_K, kind="stable")


def _find_group_edges(truth_K: Array) -> Array:
    """Find the first place of each group in the order of `order_by_group`, then K."""
    return np.concatenate([[0], np.cumsum(np.unique(truth_K, return_counts=True)[1])])


def _colour_clusters(labels_KR: Array, truth_K: Array) -> Array:
    """Colour the clusters: red, green and blue from 0 to 1, shape (K, R, 3)."""
    picture = np.empty((*labels_KR.shape, 3))
    # Kept over the rounds: a cluster keeps its shade as long as it has the same number and hue.
    shades: dict[str, dict[int, int]] = {}
    for column in range(labels_KR.shape[1]):
        labels_K = labels_KR[:, column]
        # Most rounds keep the partition of the round before; a thousand clients in each would take seconds.
        if column and np.array_equal(labels_K, labels_KR[:, column - 1]):
            picture[:, column] = picture[:, column - 1]
            continue
        for label in dict.fromkeys(labels_K.tolist()):
            hue = _choose_hue(truth_K[labels_K == label], truth_K)
            hue_shades = shades.setdefault(hue, {})
            shade = hue_shades.setdefault(label, len(hue_shades))
            # Multiples of the golden section modulo 1 are distinct, and successive ones far apart.
            picture[labels_K == label, column] = lighten_colour(hue, 0.75 * (shade * 0.382 % 1))
    return picture


def _choose_hue(members: Array, truth_K: Array) -> str:
    """Choose the hue of the group that most members are of, grey without a majority."""
    groups, counts = np.unique(members, return_counts=True)
    # Half of the clients is no majority: the hue of two groups of one size would be that of the first.
    if 2 * counts.max() <= len(members):
        return MIXED
    return HUES[int(np.searchsorted(np.unique(truth_K), groups[counts.argmax()])) % len(HUES)]


def lighten_colour(colour: str, share: float | Array) -> Array:
    """Mix a colour with a share of white: red, green and blue from 0 to 1, shape (3,).

    For shares of shape (L, 1) the colours have shape (L, 3).
    """
    return 1 - (1 - np.array(to_rgb(colour))) * (1 - share)


@check_arguments()
def class_counts(
    train_KL: Array,
    test_KL: Array,
    groups_K: Array,
    classes: Sequence[str] = (),
    group_names: Mapping[int, str] = MappingProxyType({}),
) -> Figure:
    """Draw the images of each class at each client, by hidden group, which the hue shows.

    The more images, the deeper the colour; the deepest is the largest number in the panel.

    Args:
        train_KL: training images, shape (K, L).
        test_KL: test images, shape (K, L).
        groups_K: the hidden group of each client, shape (K,).
        classes: the names of the L classes; none: their numbers.
        group_names: what the data set calls the groups, if it has any.
    """
    names = [name[:MAX_LETTERS] for name in classes] or [str(label) for label in range(train_KL.shape[1])]
    longest = max(map(len, names))
    foot = max(Margins.foot, LETTER * (longest + 2))
    with paper_style():
        height = min(7.0, max(0.9, 0.07 * len(groups_K)))
        figure, places = create_panels(2, 2, height, margins=Margins(left=0.6, gap=0.3, foot=foot))
        counts = {"training images": train_KL, "test images": test_KL}
        for axes, (name, counts_KL) in zip(places, counts.items(), strict=True):
            axes.set_title(f"{name}, at most {counts_KL.max()} of a class")
            _draw_holdings(axes, counts_KL, groups_K, names)
        places[0].set_ylabel("client")
        # Groups of single clients, as in natural splits, would have a line between any two rows.
        if 1 < len(np.unique(groups_K)) <= len(groups_K) / 2:
            name_groups(places[0], groups_K, group_names)
            for axes in places:
                draw_group_rules(axes, groups_K)
    return figure


def _draw_holdings(axes: Axes, counts_KL: Array, groups_K: Array, names: Sequence[str]) -> None:
    """Draw the numbers of images of one panel, with the classes along the x axis."""
    order_K, upright = order_by_group(groups_K), max(map(len, names)) > 2
    num_clients, num_classes = counts_KL.shape
    axes.imshow(_build_picture(counts_KL, groups_K)[order_K], aspect="auto", interpolation="none")
    axes.set_ylim(num_clients - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_xlabel("" if upright else "class")
    if num_classes <= 20:
        axes.set_xticks(range(num_classes), names, rotation=90 if upright else 0)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))


def _build_picture(counts_KL: Array, groups_K: Array) -> Array:
    """Colour the counts by group and size: red, green and blue from 0 to 1, shape (K, L, 3)."""
    # A single image has a depth of at least 0.12; none is white.
    depth_KL = np.where(counts_KL > 0, 0.12 + (1 - 0.12) * (counts_KL / max(1, counts_KL.max())), 0)
    places_K = np.unique(groups_K, return_inverse=True)[1]
    hues_K = [HUES[place % len(HUES)] for place in places_K.tolist()]
    return np.stack(
        [lighten_colour(hue, 1 - depth_L[:, None]) for hue, depth_L in zip(hues_K, depth_KL, strict=True)]
    )
