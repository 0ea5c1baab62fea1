"""Draw what each algorithm does to a toy: `python docs/toys.py` writes docs/toys/*.png.

A client is a point of the plane, and so is a model. To train is to move the model a third of the way to one's
own point; the loss is the squared distance. The server sees updates, as always, and nothing of the points.
Each picture carries the partitions that it shows, which tests/docs/test_toys.py compares with the algorithms.

Shapes: K clients, R rounds, P entries of a model: the plane's two, and others that only have noise.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedgrid import figures
from fedgrid.algorithms.contract.base import Algorithm, State
from fedgrid.algorithms.contract.orders import PREDICTIONS, Order, Presence
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.algorithms.updates.source import InMemorySource, Layout
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.tracking.figures.style import HUES

FOLDER = Path(__file__).parent / "toys"
ROUNDS, STRIDE, NOISE = 12, 0.35, 0.06
PLANE, OTHERS = 2, 30
START = (-5.2, 3.0)
LAYOUT = Layout(("model",), ((PLANE + OTHERS,),), PLANE + OTHERS)
GREY = "#9A9A9A"


@dataclass(frozen=True)
class World:
    """Clients as points, and the hidden group of each."""

    points_K2: NDArray[np.float64]
    truth_K: NDArray[np.int64]

    @property
    def targets_KP(self) -> NDArray[np.float64]:
        """Vectors to which each client's training leads, shape (K, P)."""
        return np.pad(self.points_K2, ((0, 0), (0, OTHERS)))


def make_three_groups() -> World:
    """Make three groups of four clients, at the corners of a triangle."""
    truth_K = np.repeat(np.arange(3), 4)
    angles_K = np.pi / 2 + truth_K * 2 * np.pi / 3
    corners_K2 = 2.2 * np.stack([np.cos(angles_K), np.sin(angles_K)], axis=1)
    return World(corners_K2 + np.random.default_rng(0).normal(0, 0.3, (12, PLANE)), truth_K)


def make_one_group() -> World:
    """Make twelve clients that differ by chance alone."""
    points_K2 = np.random.default_rng(1).normal(0, 0.3, (12, PLANE))
    return World(points_K2, np.zeros(12, np.int64))


TOYS: Mapping[str, tuple[str, dict[str, Any], World]] = {
    "fedavg": ("fedavg", {}, make_three_groups()),
    "sattler": ("sattler", {}, make_three_groups()),
    "briggs": ("briggs", {"round": 3}, make_three_groups()),
    "ocfl-kmeans": ("ocfl-kmeans", {}, make_three_groups()),
    "ocfl-affinity": ("ocfl-affinity", {}, make_three_groups()),
    "ocfl-hdbscan": ("ocfl-hdbscan", {}, make_three_groups()),
    "evident-groups": ("evident-groups", {}, make_three_groups()),
    "louvain": ("louvain", {}, make_three_groups()),
    "ifca": ("ifca", {}, make_three_groups()),
    "ifca-deal": ("ifca", {"start": "deal"}, make_three_groups()),
    "flis-dc": ("flis-dc", {"beta": 0.8}, make_three_groups()),
    "embeddings": ("embeddings", {}, make_three_groups()),
    "ladd": ("ladd", {}, make_three_groups()),
    "no-groups-ocfl-affinity": ("ocfl-affinity", {}, make_one_group()),
    "no-groups-evident-groups": ("evident-groups", {}, make_one_group()),
}
"""Picture -> algorithm, settings that are not the defaults, clients."""


@dataclass(frozen=True)
class Story:
    """The partitions and models of an algorithm, before round 1 and after each round."""

    labels_RK: NDArray[np.int64]
    """Shape (R + 1, K)."""
    models_RK2: NDArray[np.float64]
    """Place of the model that each client is tested with, shape (R + 1, K, 2)."""
    clustered: list[int]
    """Rounds, from 1, in which a partition was chosen."""


def play_story(name: str, settings: Mapping[str, Any], world: World) -> Story:
    """Run an algorithm of the registry on the clients of a world."""
    algorithm, clients = create_algorithm(name, settings), tuple(range(len(world.truth_K)))
    state = algorithm.init(LAYOUT, len(clients), _draw_start, np.random.default_rng(0))
    if algorithm.message() is not None:
        state = algorithm.meet(state, _collect_messages(algorithm, world), LAYOUT, np.random.default_rng(0))
    labels, models, clustered = [state.labels_K], [_locate_tested_models(algorithm, state, world)], []
    for index in range(ROUNDS):
        orders = algorithm.orders(
            state, index, Presence(clients, clients), LAYOUT, np.random.default_rng(index)
        )
        updates = _train_clients(orders, state, world, np.random.default_rng((1, index)))
        state, diagnostics = algorithm.step(state, index, updates, np.random.default_rng(index))
        labels.append(state.labels_K)
        models.append(_locate_tested_models(algorithm, state, world))
        clustered += [index + 1] if diagnostics.clustered else []
    return Story(np.array(labels), np.array(models), clustered)


def _draw_start(number: int) -> NDArray[np.float32]:
    """Draw an initial model: the first is the common start, others lie around it."""
    offset_2 = np.random.default_rng((2, number)).normal(0, 1.5, PLANE) * (number > 0)
    return np.pad(START + offset_2, (0, OTHERS)).astype(np.float32)


def _find_nearest(models: Any, candidates: Any, target_P: NDArray[np.float64]) -> int:
    """Find the candidate with the least loss."""
    return min(candidates, key=lambda model: float(((models[model] - target_P) ** 2).sum()))


def _train_clients(orders: Any, state: State, world: World, rng: np.random.Generator) -> Updates:
    """Train each client from the model that it chooses among its order's candidates."""
    vectors, chosen, predictions = {}, {}, {}
    for order in sorted(orders, key=lambda order: order.client):
        vectors[order.client], chosen[order.client] = _train_client(order, state, world, rng)
        local_P = state.models[chosen[order.client]] + vectors[order.client]
        predictions[order.client] = _predict_classes(local_P)
    return Updates(
        InMemorySource(vectors, {PREDICTIONS: predictions}), LAYOUT, clients=vectors, chosen=chosen
    )


def _train_client(
    order: Order, state: State, world: World, rng: np.random.Generator
) -> tuple[NDArray[np.float32], int]:
    """Train one client a step: its update, and the model that it chose."""
    target_P = world.targets_KP[order.client]
    model = _find_nearest(state.models, order.candidates, target_P)
    step_P = STRIDE * (target_P - state.models[model]) + rng.normal(0, NOISE, LAYOUT.size)
    return step_P.astype(np.float32), model


def _predict_classes(model_P: NDArray[np.float32]) -> NDArray[np.float32]:
    """Predict the class of 256 reference points: the quadrant around the model in which each lies."""
    # The same points for all clients: FLIS compares predictions on images that the server has.
    points_M2 = np.random.default_rng(3).uniform(-4, 4, (256, PLANE))
    right_M, above_M = (points_M2 > model_P[:PLANE]).T
    return np.eye(4, dtype=np.float32)[2 * right_M + above_M]


def _collect_messages(algorithm: Algorithm, world: World) -> dict[int, Any]:
    """Compute the messages of clients before round 1: about 20 images each, of one class."""
    message, messages = algorithm.message(), {}
    assert message is not None
    for client, point_2 in enumerate(world.points_K2):
        rng = np.random.default_rng((4, client))
        points_N2 = point_2 + rng.normal(0, 0.3, (20, PLANE))
        images = _encode_points(points_N2) if message.encoder is not None else _make_images(points_N2)
        messages[client] = message.describe(images, torch.zeros(20, dtype=torch.int64), 1, rng)
    return messages


def _encode_points(points_N2: NDArray[np.float64]) -> torch.Tensor:
    """Encode points as 64 numbers: the encoder is a random layer."""
    layer_2Z = np.random.default_rng(5).normal(0, 1, (PLANE, 64))
    return torch.from_numpy(np.tanh(points_N2 @ layer_2Z))


def _make_images(points_N2: NDArray[np.float64]) -> torch.Tensor:
    """Make images of two channels, whose brightness are the two coordinates."""
    grey_N2 = np.clip(128 + 30 * points_N2, 0, 255).astype(np.uint8)
    return torch.from_numpy(np.tile(grey_N2[:, :, None, None], (1, 1, 8, 8)))


def _locate_tested_models(algorithm: Algorithm, state: State, world: World) -> NDArray[np.float64]:
    """Find the model that each client is tested with, shape (K, 2)."""
    served = algorithm.served(state, LAYOUT)
    models_C2 = np.array(served.models)[:, :PLANE]
    places = [
        _find_nearest(models_C2, range(len(models_C2)), point_2) if client in served.choosing else own
        for client, (point_2, own) in enumerate(zip(world.points_K2, served.model_K, strict=True))
    ]
    return np.asarray(models_C2[places], np.float64)


def draw_story(story: Story, world: World) -> Figure:
    """Draw the plane, with the way of each model, next to the partitions by round."""
    figure = figures.PaperFigure(figsize=(6.4, 2.5), layout="constrained")
    plane, rounds = figure.subplots(1, 2, width_ratios=(1, 1.25))
    _draw_plane(plane, story, world)
    colours = [[_choose_colour(label, labels_K) for label in labels_K] for labels_K in story.labels_RK]
    for number, column in enumerate(colours):
        rounds.bar(
            [number] * len(column), 0.9, 0.96, np.arange(len(column)) - 0.45, color=column, linewidth=0
        )
    for edge in np.flatnonzero(np.diff(world.truth_K)) + 0.5:
        rounds.axhline(edge, color="black", linewidth=0.8)
    rounds.set(xlabel="round (0: the start)", ylabel="client", xticks=range(0, ROUNDS + 1, 2))
    rounds.set(ylim=(len(world.truth_K) - 0.5, -0.5), xlim=(-0.5, ROUNDS + 0.5))
    return figure


def _draw_plane(axes: Axes, story: Story, world: World) -> None:
    """Draw the ways of the models, the clients in the colour of their last cluster, and the start."""
    marks = ("o", "s", "^")
    for before_K2, after_K2, labels_K in zip(
        story.models_RK2, story.models_RK2[1:], story.labels_RK[1:], strict=False
    ):
        for client, label in enumerate(labels_K):
            colour = _choose_colour(label, labels_K)
            axes.plot(
                *np.stack([before_K2[client], after_K2[client]], axis=1), ".-", color=colour, linewidth=0.9
            )
    last_K = story.labels_RK[-1]
    for client, point_2 in enumerate(world.points_K2):
        mark = marks[world.truth_K[client]]
        axes.plot(
            *point_2,
            mark,
            color=_choose_colour(last_K[client], last_K),
            markeredgecolor="black",
            markersize=6,
        )
    axes.plot(*START, "*", color="black", markersize=8)
    axes.set(aspect="equal", xticks=[], yticks=[], xlim=(-7.5, 3.5), ylim=(-3, 5.5))


def _choose_colour(label: int, labels_K: NDArray[np.int64]) -> str:
    """Choose grey while there is one cluster; else a hue for each, in the order of their first clients."""
    labels = list(dict.fromkeys(labels_K.tolist()))
    return GREY if len(labels) == 1 else HUES[labels.index(int(label)) % len(HUES)]


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    for picture, (name, settings, world) in TOYS.items():
        story = play_story(name, settings, world)
        shown = {"Description": json.dumps(story.labels_RK.tolist()), "Software": None}
        draw_story(story, world).savefig(FOLDER / f"{picture}.png", dpi=110, metadata=shown)


if __name__ == "__main__":
    main()
