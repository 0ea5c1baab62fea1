"""Compare clients that train at once with the same clients one after the other.

    python -m benchmarks.stacked [--quick]

Random images, an epoch of SGD with batches of 32, one thread, the two ways in turn. Prints images per second
of processor time, and the medians of the ratios.
"""

import statistics
from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.options import build_parser
from benchmarks.precision import SETTINGS
from benchmarks.training import CLASSES, Shape, Work, compute_median_ratio, time_in_turns
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import ClientData, Setup, TrainTask
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import draw_initial_vector
from fedgrid.engine.federation.training.settings import LocalTraining

CASES = (
    ("digitnet", (1, 8, 8), 15, 96),
    ("digitnet", (1, 8, 8), 30, 96),
    ("lenet5", (1, 28, 28), 15, 64),
    ("tinyvgg", (1, 28, 28), 15, 32),
)
"""Model, shape of an image, number of clients, and each client's images."""
REPEATS = 5


def build_worker(
    model: str,
    shape: Shape,
    clients: int,
    images: int,
    training: LocalTraining,
    device: str = "cpu",
) -> ClientWorker:
    """Build a worker of clients with the same random images.

    Args:
        model: name of a model.
        shape: channels, height and width of an image.
        clients: number of clients.
        images: number of images of each.
        training: settings of the training; `stacked` clients train at once.
        device: as torch names it, the CPU by default.
    """
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (images, *shape), dtype=np.uint8)
    held = ImageSet(pixels, rng.integers(0, CLASSES, images))
    setup = Setup(
        model=model,
        num_classes=CLASSES,
        training=training,
        seed=0,
        clients=tuple(ClientData(client, held, held) for client in range(clients)),
        server_set=held.take(slice(0, 1)),
        server_parts={client: slice(0, 0) for client in range(clients)},
    )
    return ClientWorker(setup, device)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time each case, the two ways in turn."""
    parser = build_parser(__doc__, "the first case, once")
    quick: bool = parser.parse_args(arguments).quick
    for model, shape, clients, images in CASES[:1] if quick else CASES:
        start = draw_initial_vector(model, image_inputs(*shape), CLASSES, seed=0)
        tasks = [TrainTask(Order(client, (0,)), 0, evaluate=False) for client in range(clients)]
        works: list[Work] = [
            partial(build_worker(model, shape, clients, images, each).train, tasks, [start], {})
            for each in (SETTINGS, SETTINGS.model_copy(update={"stacked": clients}))
        ]
        alone, together = time_in_turns(works, 1 if quick else REPEATS)
        speeds = " and ".join(
            f"{clients * images / statistics.median(each):,.0f}" for each in (alone, together)
        )
        size = "x".join(map(str, shape))
        print(
            f"{model} {size}, {clients} clients: {speeds} images/s one by one and stacked: "
            f"{compute_median_ratio(alone, together):.2f} times"
        )


if __name__ == "__main__":
    main()
