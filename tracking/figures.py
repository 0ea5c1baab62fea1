"""The two figures of a run: its temperature, and which client was in which cluster when.

Figures are made without pyplot and with fixed settings, so that the same records give the same bytes.
Shapes: R rounds, K clients.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from tracking import records
from tracking.partitions import clustering_round
from tracking.records import Array, Records

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Okabe and Ito (2008), which the colour-blind tell apart; further clusters take lighter shades."""
INK = "#333333"
LOOK = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.dpi": 100,
    "figure.facecolor": "white",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "savefig.dpi": 130,
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": 8,
    "ytick.color": INK,
    "ytick.labelsize": 8,
}
WIDTH = 5.2
"""Inches."""
LEFT, RIGHT, TOP, BOTTOM = 0.6, 0.65, 0.3, 0.5
"""Inches around the axes. A layout engine would find them too, in half of the time that a figure takes."""
NUMBER_WIDTH = 0.035
"""Share of the map's width that a cluster's number needs."""


def temperature(found: Records) -> Figure:
    """Draw the temperature of each round, with the clustering round marked."""
    with _look():
        figure, axes = _axes(2.9)
        axes.plot(found.round_R, found.rounds["temperature"], color=COLOURS[0], marker="o", markersize=3.5)
        axes.set_ylabel("temperature")
        axes.margins(y=0.12)
        _number_rounds(axes, found.round_R)
        axes.grid(axis="y", color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        _mark_clustering(axes, found)
    return figure


def cluster_map(found: Records) -> Figure:
    """Draw client by round, coloured and numbered by cluster, with lines between the hidden groups."""
    order_K = np.argsort(found.truth_K, kind="stable")
    labels_KR = found.clients["cluster"].T[order_K]
    num_clients, num_rounds = labels_KR.shape
    with _look():
        figure, axes = _axes(1.3 + 0.15 * num_clients)
        for row, labels_R in enumerate(labels_KR):
            _draw_client(axes, row, labels_R, found.round_R)
        _number_rounds(axes, found.round_R)
        axes.set_ylim(num_clients - 0.5, -0.5)
        axes.set_yticks(range(num_clients), [str(client) for client in order_K])
        axes.tick_params(length=2)
        axes.set_ylabel("client")
        axes.spines[:].set_visible(False)
        _mark_groups(axes, found.truth_K[order_K])
        _mark_clustering(axes, found, shift=-0.5)
    return figure


def write(run_folder: Path) -> list[Path]:
    """Write both figures as png into `figures` of the run's folder and return their paths.

    Raises:
        RecordsError: if there are no records.
    """
    found = records.read(run_folder)
    folder = run_folder / "figures"
    folder.mkdir(exist_ok=True)
    paths = [folder / "temperature.png", folder / "clusters.png"]
    for path, figure in zip(paths, (temperature(found), cluster_map(found)), strict=True):
        with _look():
            figure.savefig(path, metadata={"Software": None})
    return paths


@contextmanager
def _look() -> Iterator[None]:
    """Draw with our settings, whatever the user's matplotlibrc says."""
    with matplotlib.rc_context(), style.context(["default", LOOK]):
        yield


def _axes(height: float) -> tuple[Figure, Axes]:
    """Return a new figure of so many inches, and its axes."""
    figure = Figure(figsize=(WIDTH, height))
    figure.subplots_adjust(LEFT / WIDTH, BOTTOM / height, 1 - RIGHT / WIDTH, 1 - TOP / height)
    return figure, figure.subplots()


def _draw_client(axes: Axes, row: int, labels_R: Array, round_R: Array) -> None:
    """Draw one bar for each stretch of rounds that the client spent in one cluster."""
    starts = [0, *(np.flatnonzero(np.diff(labels_R)) + 1).tolist()]
    stops = [*starts[1:], len(labels_R)]
    for start, stop in zip(starts, stops, strict=True):
        label, left, width = int(labels_R[start]), round_R[start] - 0.5, stop - start
        axes.add_patch(Rectangle((left, row - 0.44), width, 0.88, facecolor=_colour(label), linewidth=0))
        if width >= NUMBER_WIDTH * len(round_R):
            axes.annotate(
                str(label),
                (left, row),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=6.5,
                va="center_baseline",
                color=_contrast(label),
            )


def _mark_groups(axes: Axes, truth_K: Array) -> None:
    edges = [0, *(np.flatnonzero(np.diff(truth_K)) + 1).tolist(), len(truth_K)]
    for edge in edges[1:-1]:
        axes.axhline(edge - 0.5, color=INK, linewidth=1.4)
    names = axes.secondary_yaxis("right")
    names.set_yticks(
        [(first + last - 1) / 2 for first, last in zip(edges[:-1], edges[1:], strict=True)],
        [f"group {truth_K[first]}" for first in edges[:-1]],
    )
    names.tick_params(length=0)
    names.spines[:].set_visible(False)


def _mark_clustering(axes: Axes, found: Records, *, shift: float = 0.0) -> None:
    number = clustering_round(found.clients["cluster"], found.rounds["clustered"])
    if number is None:
        return
    where = number + shift
    early = number <= found.round_R.mean()
    axes.axvline(where, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=1.5)
    axes.annotate(
        f"clustered in round {number}",
        (where, 1),
        xycoords=("data", "axes fraction"),
        xytext=(0 if early else 2, 3),
        textcoords="offset points",
        fontsize=8,
        ha="left" if early else "right",
        va="bottom",
    )


def _number_rounds(axes: Axes, round_R: Array) -> None:
    axes.set_xlabel("round")
    axes.set_xlim(round_R[0] - 0.5, round_R[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _colour(label: int) -> tuple[float, float, float]:
    lighter = 1 - 0.55 ** (label // len(COLOURS))
    red, green, blue = to_rgb(COLOURS[label % len(COLOURS)])
    return red + (1 - red) * lighter, green + (1 - green) * lighter, blue + (1 - blue) * lighter


def _contrast(label: int) -> str:
    red, green, blue = _colour(label)
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.45 else "white"
