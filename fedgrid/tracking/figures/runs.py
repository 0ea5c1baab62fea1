"""The figure of a run: temperature by round above the cluster of each client by round.

Shapes: R rounds, K clients.
"""

from itertools import pairwise
from math import ceil
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.arguments import check_arguments
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.figures.maps import draw_map, order_by_group
from fedgrid.tracking.figures.panels import Margins, create_panels, scale_y, set_up_rounds
from fedgrid.tracking.figures.style import GRID, HUES, INK, SMALL, paper_style, save
from fedgrid.tracking.records import Records, read_records
from fedgrid.tracking.scoring.partitions import find_clustering_round

HEAD = 0.24
"""Above the panels, in inches."""
ROW = 0.1
"""Height of a client in the map, in inches, as long as there is room."""
TALLEST = 8.0
"""Height of a map at most, in inches: one of thousands of clients would take gigabytes to draw."""


@check_arguments()
def cluster_map(records: Records) -> Figure:
    """Draw the cluster of each client by round, with the clusters' numbers.

    A cluster has the hue of the hidden group of the majority of its clients, grey without a majority, and a
    shade of its own. Lines separate the hidden groups.
    """
    with paper_style():
        figure, [axes] = create_panels(1, 1, _compute_height(records), margins=Margins(head=HEAD))
        _draw_clusters(axes, records)
        _name_clustering(axes, records, shift=-0.5)
    return figure


@check_arguments()
def run_figure(records: Records) -> Figure:
    """Draw the temperature of each round and, below it, the cluster of each client.

    A run without any temperature has only the clusters.
    """
    if np.isnan(records.rounds["temperature"]).all():
        return cluster_map(records)
    with paper_style():
        margins = Margins(head=HEAD, row_gap=0.1)
        figure, [above, below] = create_panels(2, 1, [0.8, _compute_height(records)], margins=margins)
        _draw_temperature(above, records)
        _draw_clusters(below, records)
        above.xaxis.set_visible(False)
        _name_clustering(above, records)
    return figure


@check_arguments()
def write(run_folder: Path | str, to: Path | str) -> Path:
    """Draw a run's figure into the folder `to`, as PNG, and return its path.

    Raises:
        RecordsError: there are no records; nothing is written.
    """
    records = read_records(Path(run_folder))
    to = Path(to)
    to.mkdir(parents=True, exist_ok=True)
    with paper_style():
        save(run_figure(records), to / "run.png")
    return to / "run.png"


def _compute_height(records: Records) -> float:
    """Compute the height of a map in inches, within its limits."""
    return min(TALLEST, max(1.0, ROW * len(records.truth_K)))


def _draw_temperature(axes: Axes, records: Records) -> None:
    """Draw the temperature of each round."""
    temperature_R = records.rounds["temperature"]
    axes.set_ylabel("temperature")
    axes.plot(records.round_R, temperature_R, color=HUES[0], marker="o", markersize=2.8)
    axes.margins(y=0.12)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    scale_y(axes, float(np.nanmax(temperature_R)))
    set_up_rounds(axes, records.round_R)
    _mark_clustering(axes, records)


def _draw_clusters(axes: Axes, records: Records) -> None:
    """Draw the map of clusters, with at most ten clients labelled."""
    truth_K, labels_RK = records.truth_K, records.clients["cluster"]
    num_clients = len(truth_K)
    draw_map(axes, labels_RK, truth_K, records.round_R)
    set_up_rounds(axes, records.round_R)
    order_K, step = order_by_group(truth_K), -(-num_clients // 10)
    axes.set_yticks(
        range(0, num_clients, step), [str(client) for client in records.client_K[order_K[::step]]]
    )
    axes.set_ylabel("client, by hidden group")
    _number_clusters(axes, labels_RK[:, order_K].T, records.round_R, least=ceil(ROW * num_clients / TALLEST))
    _mark_clustering(axes, records, shift=-0.5)


def _number_clusters(axes: Axes, labels_KR: Array, round_R: Array, *, least: int) -> None:
    """Write the cluster's number where a client enters a cluster, unless the client above enters it too.

    Only where as many clients as a line of text is high, `least`, one below the other are in the cluster.
    """
    picture = np.asarray(axes.images[0].get_array())
    above: set[tuple[int, int]] = set()
    for row, labels_R in enumerate(labels_KR):
        edges = [0, *(np.flatnonzero(np.diff(labels_R)) + 1).tolist(), len(labels_R)]
        for start, stop in pairwise(edges):
            label = int(labels_R[start])
            is_too_low = bool((labels_KR[row : row + least, start] != label).any())
            # A number is 0.04 times as wide as the map.
            if is_too_low or (start, label) in above or stop - start < 0.04 * len(labels_R):
                continue
            # The weights of red, green and blue in perceived brightness (ITU-R BT.601).
            brightness = picture[row, start] @ np.array([0.299, 0.587, 0.114])
            axes.annotate(
                str(label),
                (round_R[start] - 0.5, row),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=SMALL,
                va="center_baseline",
                color="black" if brightness > 0.45 else "white",
            )
        # A cluster of many neighbours that enter it together is numbered once, at the first of them.
        above = {(start, int(labels_R[start])) for start in edges[:-1]}


def _mark_clustering(axes: Axes, records: Records, *, shift: float = 0.0) -> None:
    """Draw a line at the round of the first clustering, if there is one."""
    number = _find_clustering_round(records)
    if number is not None:
        axes.axvline(number + shift, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1.5)


def _name_clustering(axes: Axes, records: Records, *, shift: float = 0.0) -> None:
    """Write the round of the first clustering above the panel."""
    number = _find_clustering_round(records)
    if number is None:
        return
    early = number <= records.round_R.mean()
    axes.annotate(
        f"clustered in round {number}",
        (number + shift, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0 if early else 2, 3),
        textcoords="offset points",
        ha="left" if early else "right",
        va="bottom",
    )


def _find_clustering_round(records: Records) -> int | None:
    """Find the round of the first clustering, None if there is none."""
    return find_clustering_round(records.clients["cluster"], records.rounds["clustered"])
