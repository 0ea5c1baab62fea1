"""Time Gram matrix, cosine distances and temperature of 30 ResNet-34 updates from Ray's object store.

    python -m benchmarks.clustering [--quick]

Prints seconds of the wall and of the processor, the median of the ratios to the usual way (a Gram matrix for
each tensor, from the stacked updates), the two in turns, and the peak memory that the streamed one adds.
"""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from threading import Event, Thread

import numpy as np
import ray

from benchmarks.memory import read_private_mb
from benchmarks.options import build_parser
from fedgrid.algorithms.clustering.measures import compute_temperature
from fedgrid.algorithms.updates.source import Layout, Matrix, Vector
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import build_blank, read_layout
from fedgrid.grids.ray_cluster.cluster import connect_to_ray

CLIENTS = 30
THREADS = 2
REPEATS = 5


def fill_store(layout: Layout) -> list[Vector]:
    """Put random updates into the object store and get views of them."""
    refs = []
    for client in range(CLIENTS):
        rng = np.random.default_rng(client)
        refs.append(ray.put(rng.standard_normal(layout.size, dtype=np.float32)))
    return ray.get(refs)


def compute_streamed(vectors: list[Vector], layout: Layout) -> float:
    """Compute the temperature by blocks of columns, as the engine does."""
    updates = Updates(dict(enumerate(vectors)), layout, similarity_over="state", threads=THREADS)
    return compute_temperature(updates.cosine_distances_KK)


def compute_by_tensor(vectors: list[Vector], layout: Layout) -> float:
    """Compute the temperature by one Gram matrix for each tensor, the usual way."""
    gram_KK: Matrix = np.zeros((CLIENTS, CLIENTS))
    for _, part, _ in layout.slices():
        block = np.stack([vector[part] for vector in vectors])
        gram_KK += block @ block.T
    norms_K = np.sqrt(np.diagonal(gram_KK))
    return compute_temperature(1 - gram_KK / np.outer(norms_K, norms_K))


def time_work(work: Callable[[], float]) -> tuple[float, float, float]:
    """Run a function; return its result, and its wall-clock and processor seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - processor


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare both ways, on updates of ResNet-34 or, with `--quick`, of LeNet-5."""
    parser = build_parser(__doc__, "updates of LeNet-5, each way once")
    quick: bool = parser.parse_args(arguments).quick
    model, size = ("lenet5", (1, 28, 28)) if quick else ("resnet34", (3, 32, 32))
    layout = read_layout(build_blank(model, image_inputs(*size), 10))
    if quick:
        with connect_to_ray():
            compare_ways(layout, repeats=1)
    else:
        ray.init(num_cpus=2, object_store_memory=4 * 2**30, include_dashboard=False, log_to_driver=False)
        compare_ways(layout, repeats=REPEATS)
        ray.shutdown()


def compare_ways(layout: Layout, repeats: int) -> None:
    """Time both ways in turns, on updates of this layout, and print seconds, ratios and memory."""
    vectors = fill_store(layout)
    # Touch every page of the store's shared memory first: page faults would count for the first way alone.
    sum(float(vector[::4096].sum()) for vector in vectors)
    before = read_private_mb(os.getpid())
    ours, theirs = [], []
    for _ in range(repeats):
        one, *seconds = time_work(lambda: compute_streamed(vectors, layout))
        ours.append(seconds)
        other, *seconds = time_work(lambda: compute_by_tensor(vectors, layout))
        theirs.append(seconds)
        # Both are sums of float32 products, in another order.
        assert abs(one - other) < 1e-4, (one, other)
    print(f"{CLIENTS} updates of {layout.size / 1e6:.2f} M float32, {THREADS} threads, best of {repeats}")
    for index, clock in enumerate(("wall", "processor")):
        our, their = ([seconds[index] for seconds in side] for side in (ours, theirs))
        ratio = statistics.median(second / first for first, second in zip(our, their, strict=True))
        print(f"{clock}: streamed {min(our):.2f} s, by tensor {min(their):.2f} s, median ratio {ratio:.2f}")
    extra = sample_peak_memory(vectors, layout) - before
    print(f"peak of private memory above the start while streaming: {extra:.0f} MB")


def sample_peak_memory(vectors: list[Vector], layout: Layout) -> float:
    """Measure the peak private memory in MB during one streamed pass, sampled every millisecond."""
    done, peak = Event(), [read_private_mb(os.getpid())]

    def sample_memory() -> None:
        while not done.wait(0.001):
            peak[0] = max(peak[0], read_private_mb(os.getpid()))

    sampler = Thread(target=sample_memory)
    sampler.start()
    compute_streamed(vectors, layout)
    done.set()
    sampler.join()
    return peak[0]


if __name__ == "__main__":
    main()
