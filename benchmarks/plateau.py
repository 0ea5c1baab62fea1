"""The plateau on which training begins, and the round in which OCFL's temperature first rises.

    python -m benchmarks.plateau rise.csv rise.png

A network that has learnt only how frequent each class is among a client's images has the entropy of these
shares as its cross-entropy, and gives every image the largest class. Here are loss and accuracy of a
scenario's clients with these two numbers, by round, and the figure: temperature against loss minus entropy.
`benchmarks.first_rounds --rows rise.csv` trains, and writes what is drawn.

Shapes: K clients, all of them in each of R rounds, G hidden groups, L classes.
"""

import argparse
import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import entropy

from fedgrid.algorithms.clustered.while_training.ocfl import has_risen
from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.updates.source import Matrix
from fedgrid.tracking.figures.panels import Margins, create_panels, draw_rules
from fedgrid.tracking.figures.style import FAINT, HUES, SMALL, paper_style, save
from fedgrid.tracking.papers.shared.paper import read_csv_rows

ARCHIVED = Path(
    "archive/experiments/MNIST/overlaping/imbalanced/15/HDBSCAN_MNIST_overlaping_imbalanced_15/results"
)
"""The one run of OCFL of the authors' whose losses are in the archive's part that REFERENCE holds."""
AUTHORS = "authors' network"
COLUMNS = ("network", "scenario", "round", "temperature", "above_entropy")


@dataclass(frozen=True)
class Plateau:
    """Temperatures, losses and accuracies of the first rounds of a scenario."""

    network: str
    scenario: str
    temperature_R: Sequence[float]
    loss_RK: Matrix
    """Mean cross-entropy of each client's last local epoch, as its model changes, in nats."""
    accuracy_RK: Matrix
    counts_KL: Matrix
    """Training images by class."""
    truth_K: Labels

    @property
    def shares_GL(self) -> Matrix:
        """Share of each class in the images of a hidden group, shape (G, L)."""
        counts_GL = np.stack([self.counts_KL[of_group_K].sum(axis=0) for of_group_K in self._groups])
        return np.asarray(counts_GL / counts_GL.sum(axis=1, keepdims=True))

    @property
    def entropy_G(self) -> Matrix:
        """Entropy of the classes of each hidden group, in nats."""
        return np.asarray(entropy(self.shares_GL, axis=1))

    def average_by_group(self, values_RK: Matrix) -> Matrix:
        """Average over the clients of each hidden group: shape (R, K) to shape (R, G)."""
        return np.stack([values_RK[:, of_group_K].mean(axis=1) for of_group_K in self._groups], axis=1)

    @property
    def above_entropy_R(self) -> Matrix:
        """Mean over clients of the loss minus the entropy of the group's classes."""
        entropy_K = self.entropy_G[np.unique(self.truth_K, return_inverse=True)[1]]
        return np.asarray((self.loss_RK - entropy_K).mean(axis=1))

    @property
    def _groups(self) -> list[Labels]:
        return [np.flatnonzero(self.truth_K == group) for group in np.unique(self.truth_K)]


def find_first_rise(values: Sequence[float]) -> int | None:
    """Find the first round, from 1, whose temperature exceeds that of the round before."""
    return next((number for number in range(2, len(values) + 1) if has_risen(values[:number], 1)), None)


def read_archived_temperatures(results: Path) -> list[float]:
    """Read the temperatures of a run of OCFL of the authors', until it clusters."""
    with (results / "clusters_temperature.csv").open(newline="") as file:
        return [float(temperature) for _, _, temperature in csv.reader(file)]


def read_archived_plateau(reference: Path) -> Plateau:
    """Read the rounds of the authors' run until it clusters."""
    scenario = {"dataset": "MNIST", "overlap": "overlaping", "balance": "imbalanced", "n": "15"}
    clients = [row for row in read_csv_rows(reference / "clients.csv") if scenario.items() <= row.items()]
    temperature_R = read_archived_temperatures(reference / ARCHIVED)
    loss_RK, accuracy_RK = np.empty((2, len(temperature_R), len(clients)))
    for row in read_csv_rows(reference / ARCHIVED / "training_metrics.csv"):
        place = int(row["iteration"]), int(row["node_id"])
        # The archive goes on after the run has clustered; its losses are then of other models.
        if place[0] < len(temperature_R):
            loss_RK[place], accuracy_RK[place] = float(row["loss"]), float(row["accuracy"])
    counts_KL = np.array([[float(row[f"tr{label}"]) for label in range(10)] for row in clients])
    truth_K = np.array([int(row["cluster"]) for row in clients])
    name = "overlapping-imbalanced, 15"
    return Plateau(AUTHORS, name, temperature_R, loss_RK, accuracy_RK, counts_KL, truth_K)


def print_plateaus(plateaus: Iterable[Plateau]) -> None:
    """Print a row a round."""
    print(
        "\n| network, scenario | round | temperature | loss - entropy, by group | accuracy | largest class |"
    )
    print(f"|{' --- |' * 6}")
    for plateau in plateaus:
        above_RG = plateau.average_by_group(plateau.loss_RK) - plateau.entropy_G
        accuracy_RG = plateau.average_by_group(plateau.accuracy_RK)
        largest = _join_numbers(plateau.shares_GL.max(axis=1))
        for number, temperature in enumerate(plateau.temperature_R):
            cells = (
                f"{plateau.network}, {plateau.scenario}",
                str(number + 1),
                f"{temperature:.3f}",
                " ".join(f"{value:+.2f}" for value in above_RG[number]),
                _join_numbers(accuracy_RG[number]),
                largest,
            )
            print(f"| {' | '.join(cells)} |")


def _join_numbers(values: Iterable[float]) -> str:
    return " ".join(f"{value:.3f}" for value in values)


def write_rows(path: Path, plateaus: Iterable[Plateau]) -> None:
    """Write a line a round, as `draw_plateaus` reads them."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for plateau in plateaus:
            pairs = zip(plateau.temperature_R, plateau.above_entropy_R, strict=True)
            for number, (temperature, above) in enumerate(pairs, 1):
                where = plateau.network, plateau.scenario, number
                writer.writerow((*where, f"{temperature:.4f}", f"{above:.4f}"))


def draw_plateaus(rows: Sequence[dict[str, str]]) -> Figure:
    """Draw temperature against loss minus entropy: a panel a network, a line a scenario.

    Rounds go from left to right; the first rise is filled and has its round.
    """
    networks, scenarios = ([*dict.fromkeys(row[key] for row in rows)] for key in ("network", "scenario"))
    colours = dict(zip(scenarios, HUES, strict=False))
    with paper_style():
        legend = [Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
        figure, places = create_panels(
            len(networks), 3, 1.7, margins=Margins(head=0.2, gap=0.3), legend=legend
        )
        for axes, network in zip(places, networks, strict=True):
            axes.set_title(network)
            for scenario, colour in colours.items():
                line = {"network": network, "scenario": scenario}.items()
                _draw_line(axes, [row for row in rows if line <= row.items()], colour)
            draw_rules(axes, [0.0], upright=True, colors=FAINT)
            axes.text(0.04, 0.47, "entropy", color=FAINT, fontsize=SMALL, ha="right")
            axes.set(xlim=(0.6, -1.75), ylim=(0.15, 0.5), xticks=(0.5, 0, -0.5, -1, -1.5))
            axes.set_yticks((0.2, 0.3, 0.4, 0.5))
            axes.set_xlabel("training loss minus entropy, nats")
        places[0].set_ylabel("temperature")
    return figure


def _draw_line(axes: Axes, line: Sequence[dict[str, str]], colour: str) -> None:
    """Draw the rounds of one scenario, and its first rise."""
    above, temperature = ([float(row[key]) for row in line] for key in ("above_entropy", "temperature"))
    axes.plot(above, temperature, color=colour, marker="o", markerfacecolor="white")
    rise = find_first_rise(temperature)
    if rise is not None:
        at = above[rise - 1], temperature[rise - 1]
        axes.plot(*at, color=colour, marker="o", markersize=6)
        axes.annotate(str(rise), at, color="white", fontsize=SMALL, ha="center", va="center")


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figure from its csv file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("figure", type=Path)
    given = parser.parse_args(arguments)
    save(draw_plateaus(read_csv_rows(given.rows)), given.figure)


if __name__ == "__main__":
    main()
