"""Compare bounds on the influence of an update's entries, and single rounds, on the federations of `factors`.

    OMP_NUM_THREADS=1 python -m benchmarks.groups.bounds FOLDER mnist-6000.npz --jobs 2
    python -m benchmarks.groups.bounds_report

Rows go into docs/evidence/factors/bounds.csv as they come, digits first, then MNIST seed by seed; a run that
was interrupted goes on after them. Some cells of `factors` are computed again. The others were added after
its results, and committed before any was run.

Shapes: K clients, all of them in each round, P parameters.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.groups import factors
from benchmarks.groups.factors import FAMILIES, NUM_ROUNDS, NUMBERS, Cell, Federation, Row
from benchmarks.groups.stored import Recorder, train_rounds
from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.contract.base import Diagnostics, Labels, State
from fedgrid.algorithms.updates.products import Products, compute_standardised_products
from fedgrid.algorithms.updates.source import Layout, Matrix
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.prepare import prepare_setup

BOUNDS_CSV = Path("docs/evidence/factors/bounds.csv")
DISTANCES = ("raw", "standardised", "sign", "one-scale", "without-last-layer")
ROUNDS = {"first": slice(0, 1), "second": slice(1, 2), "one": slice(-1, None), "pooled": slice(None)}
"""Round 1 alone, round 2 alone, the last one alone (`one` in the rows of `factors`), the mean of all."""
CELLS: tuple[Cell, ...] = (
    *product(DISTANCES, ROUNDS, ("told",)),
    *product(("standardised", "sign"), ("pooled",), NUMBERS[1:]),
)
"""With some cells of `factors`, computed again: to be compared on the same training, and as a check."""

RoundDistances: TypeAlias = Mapping[str, Matrix]
"""Kind of distances -> 1 - cosine, shape (K, K), of one round."""


def take_signs(updates_KP: Matrix) -> Matrix:
    """Take the signs of centred updates: each entry minus its mean over the clients."""
    return np.asarray(np.sign(updates_KP - updates_KP.mean(axis=0)))


def scale_tensors(updates_KP: Matrix, sizes: Sequence[int]) -> Matrix:
    """Centre updates, and divide each tensor by its standard deviation over clients and entries.

    A tensor in which all clients are equal becomes zeros.

    Args:
        updates_KP: a row for each client.
        sizes: numbers of entries of the tensors, in their order.
    """
    centred_KP: Matrix = updates_KP - updates_KP.mean(axis=0)
    for tensor in np.split(centred_KP, np.cumsum(sizes)[:-1], axis=1):
        deviation = np.sqrt(np.mean(tensor**2))
        if deviation > 0:
            tensor /= deviation
    return centred_KP


def drop_last_layer(updates_KP: NDArray[Any], layout: Layout) -> NDArray[Any]:
    """Drop the entries of the last layer."""
    last = [slice(*bounds) for bounds in layout.ranges(layout.layers[-1:])]
    return np.delete(updates_KP, np.r_[*last], axis=1)


def compute_distances(updates: Updates, layout: Layout) -> RoundDistances:
    """Compute the distances of a round that are not in `factors`; as there, updates have length 1 first."""
    updates_KP = np.stack(updates.vectors())[:, : layout.num_parameters]
    lengths_K = np.linalg.norm(updates_KP.astype(np.float64), axis=1)
    directions_KP = updates_KP / lengths_K[:, None]
    body_KP = drop_last_layer(updates_KP, layout)
    body_lengths_K = np.linalg.norm(body_KP.astype(np.float64), axis=1)
    sizes = [prod(shape) for _, where, shape in layout.slices() if where.stop <= layout.num_parameters]
    return {
        "sign": _compute_cosine_distances(take_signs(directions_KP)),
        "one-scale": _compute_cosine_distances(scale_tensors(directions_KP, sizes)),
        "without-last-layer": compute_standardised_products(
            list(body_KP), body_lengths_K, body_KP.shape[1]
        ).cosine_distances_KK,
    }


def _compute_cosine_distances(rows_KP: Matrix) -> Matrix:
    return Products(rows_KP @ rows_KP.T, np.zeros(len(rows_KP)), 0.0).cosine_distances_KK


class BoundRecorder(Recorder):
    """Plain averaging that also records distances under each bound."""

    round_distances: list[RoundDistances]

    def __init__(self) -> None:
        super().__init__()
        # An algorithm refuses to be changed: its state belongs into `State`.
        vars(self).update(round_distances=[])

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Record the round, with its distances."""
        changed = super().recluster(state, round_index, updates, rng)
        of_factors = {name: factors.select_distances(self.rounds[-1], name) for name in DISTANCES[:2]}
        self.round_distances.append({**of_factors, **compute_distances(updates, updates.layout)})
        return changed


def find_groups(
    rounds: Sequence[RoundDistances], num_groups: int, seed: int
) -> Iterator[tuple[Cell, Groups]]:
    """Yield the groups that each cell finds; without groups (0) the number cannot be given."""
    for distances, extent in product(DISTANCES, ROUNDS):
        squares_KK = np.mean([each[distances] for each in rounds[ROUNDS[extent]]], axis=0)
        for number, groups in factors.cut_tree(squares_KK, num_groups, seed):
            if (distances, extent, number) in CELLS:
                yield (distances, extent, number), groups


def compute_rows(federation: Federation, mnist: Path, folder: Path, data_dir: Path) -> list[Row]:
    """Compute the rows of a federation; train it if the folder does not have its distances.

    Args:
        federation: which.
        mnist: file of the images drawn from MNIST.
        folder: where distances are stored.
        data_dir: folder with the images of data sets.
    """
    path = folder / f"{'-'.join(map(str, federation))}.npz"
    given = {"algorithm": "fedavg", **factors.build_settings(federation, mnist)}
    config = complete_config(given, data_dir)
    with threadpool_limits(1):
        if not path.exists():
            setup, truth_K = prepare_setup(config, data_dir)
            recorder = BoundRecorder()
            train_rounds(config, setup, truth_K, recorder, lambda rounds: len(rounds) >= NUM_ROUNDS, data_dir)
            _write_distances(path, truth_K, recorder.round_distances)
        with np.load(path) as arrays:
            rounds = [
                {name: arrays[f"{name}_{number}"] for name in DISTANCES} for number in range(NUM_ROUNDS)
            ]
            cell_groups = find_groups(rounds, FAMILIES[federation.family].num_groups, config.root_seed)
            return factors.score_cells(federation, arrays["truth"], cell_groups)


def _write_distances(path: Path, truth_K: Labels, rounds: Sequence[RoundDistances]) -> None:
    """Write the distances, and rename the file when it is whole."""
    arrays: dict[str, Any] = {
        f"{name}_{number}": matrix for number, each in enumerate(rounds) for name, matrix in each.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(file, truth=truth_K, **arrays)
    part.rename(path)


def main() -> None:
    """Run what the rows lack."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="Where the stored distances are.")
    parser.add_argument(
        "mnist", type=Path, help="The images drawn from MNIST; seeds depend on the file's name."
    )
    parser.add_argument("--jobs", type=int, default=1, help="Processes.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    given = parser.parse_args()
    rows = factors.read_rows(BOUNDS_CSV)
    done = factors.list_trained(rows)
    missing = sorted(
        (each for each in factors.list_federations() if each not in done),
        key=lambda each: (each.dataset, each.seed),
    )
    compute = partial(compute_rows, mnist=given.mnist.resolve(), folder=given.folder, data_dir=given.data)
    executor = ProcessPoolExecutor(given.jobs)
    try:
        for federation, new in zip(missing, executor.map(compute, missing), strict=True):
            rows += new
            factors.write_rows(rows, BOUNDS_CSV)
            print(*federation, flush=True)
    finally:
        # An interrupted run does not wait for federations that have not begun.
        executor.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
