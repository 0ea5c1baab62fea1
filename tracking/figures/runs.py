"""The two figures of a run: temperature by round, and the cluster of each client by round.

Shapes: R rounds, K clients.
"""

from itertools import pairwise
from math import ceil
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedgrid.tracking import records
from fedgrid.tracking.figures.maps import HUES, by_group, draw_map
from fedgrid.tracking.figures.panels import Margins, number_rounds, panels, say, scale_y
from fedgrid.tracking.figures.style import GRID, INK, SMALL, paper_style, save
from fedgrid.tracking.records import Array, Records
from fedgrid.tracking.scoring.partitions import clustering_round

ROW = 0.1
"""Height of a client in the map, in inches, as long as there is room."""
TALLEST = 8.0
"""Height of a map at most, in inches: one of thousands of clients would take gigabytes to draw."""
NUMBER_WIDTH = 0.04
"""Width of a cluster's number as a share of the map's."""
BRIGHTNESS = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue."""


def temperature(found: Records) -> Figure:
    """Draw the temperature of each round, with the clustering round marked."""
    temperature_R = found.rounds["temperature"]
    with paper_style():
        figure, [axes] = panels(1, 1, 1.5, margins=Margins(head=0.24))
        axes.set_ylabel("temperature")
        if np.isnan(temperature_R).all():
            axes.set_yticks([])
            say(axes, "no temperature was recorded")
            return figure
        axes.plot(found.round_R, temperature_R, color=HUES[0], marker="o", markersize=2.8)
        axes.margins(y=0.12)
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        scale_y(axes, float(np.nanmax(temperature_R)))
        number_rounds(axes, found.round_R)
        _mark_clustering(axes, found)
    return figure


def cluster_map(found: Records) -> Figure:
    """Draw the cluster of each client by round, with the clusters' numbers and lines between the hidden
    groups.

    A cluster has the hue of the hidden group of the majority of its clients, grey without a majority, and a
    shade of its own.
    """
    truth_K, labels_RK = found.truth_K, found.clients["cluster"]
    num_clients = len(truth_K)
    with paper_style():
        height = min(TALLEST, max(1.0, ROW * num_clients))
        figure, [axes] = panels(1, 1, height, margins=Margins(head=0.24))
        draw_map(axes, labels_RK, truth_K, found.round_R)
        number_rounds(axes, found.round_R)
        order_K, step = by_group(truth_K), -(-num_clients // 10)
        axes.set_yticks(range(0, num_clients, step), [str(client) for client in order_K[::step]])
        axes.set_ylabel("client, by hidden group")
        _number_clusters(
            axes, labels_RK[:, order_K].T, found.round_R, least=ceil(ROW * num_clients / TALLEST)
        )
        _mark_clustering(axes, found, shift=-0.5)
    return figure


def write(run_folder: Path, to: Path) -> list[Path]:
    """Draw both figures of a run into the folder `to`, as PNG, and return their paths.

    A run without any temperature has only the map.

    Raises:
        RecordsError: there are no records; nothing is written.
    """
    found = records.read_records(run_folder)
    to.mkdir(parents=True, exist_ok=True)
    figures = {"clusters.png": cluster_map}
    if not np.isnan(found.rounds["temperature"]).all():
        figures = {"temperature.png": temperature, **figures}
    for name, draw in figures.items():
        save(draw(found), to / name)
    return [to / name for name in figures]


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
            if is_too_low or (start, label) in above or stop - start < NUMBER_WIDTH * len(labels_R):
                continue
            axes.annotate(
                str(label),
                (round_R[start] - 0.5, row),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=SMALL,
                va="center_baseline",
                color="black" if picture[row, start] @ BRIGHTNESS > 0.45 else "white",
            )
        above = {(start, int(labels_R[start])) for start in edges[:-1]}


def _mark_clustering(axes: Axes, found: Records, *, shift: float = 0.0) -> None:
    number = clustering_round(found.clients["cluster"], found.rounds["clustered"])
    if number is None:
        return
    where = number + shift
    early = number <= found.round_R.mean()
    axes.axvline(where, color=INK, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1.5)
    axes.annotate(
        f"clustered in round {number}",
        (where, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0 if early else 2, 3),
        textcoords="offset points",
        ha="left" if early else "right",
        va="bottom",
    )
