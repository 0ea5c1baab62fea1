"""Compare three factors of finding groups: standardised updates, pooled rounds, the number of groups.

    python -m benchmarks.some_images mnist mnist-6000.npz --train 6000 --test 1150 --data DATA
    OMP_NUM_THREADS=1 python -m benchmarks.groups.factors FOLDER mnist-6000.npz --part 1 --jobs 2
    python -m benchmarks.groups.factors_report

Plain averaging is trained once for each family, data set and seed; then all 2 x 2 x 3 cells decide about
groups on the same rounds, always by Ward's tree without k-means. A part has two of the six seeds. Its rows go
into docs/evidence/factors/outcomes.csv as they come, and a part that was interrupted goes on after them. The
families, factors and seeds here, and the tests in `factors_report`, were committed before the first run.

Shapes: K clients, all of them in each round.
"""

import argparse
import csv
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks.groups.decisions import is_same_partition
from benchmarks.groups.stored import Round, SharedPrefix, load_shared_prefix
from fedgrid.algorithms.clustering import ward
from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.clustering.measures import number_groups
from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.updates.products import Products
from fedgrid.algorithms.updates.source import Matrix
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.grids.arena.families import SHARED, Family
from fedgrid.grids.presets.nested_values import merge_mappings
from fedgrid.tracking.papers.shared.paper import read_csv_rows

OUTCOMES = Path("docs/evidence/factors/outcomes.csv")
DISTANCES = ("raw", "standardised")
ROUNDS = ("one", "pooled")
"""The last round alone, or the mean of all up to it."""
NUMBERS = ("told", "silhouette", "evidence")
"""Ways to the number of groups: it is given (`told` in the rows); it is what `evident-groups` takes from the
tree; or that, and one group unless the groups are evident."""
NUM_ROUNDS = 5
"""The round in which `ward-told` clusters by default."""
EVIDENCE = 6.0
"""The threshold of `evident-groups`."""
PARTS = {1: (8000, 8001), 2: (8002, 8003), 3: (8004, 8005)}
"""Part -> its seeds."""
DATASETS = ("digits", "mnist")
LENET = {"model": "lenet5", "training": {"momentum": 0.9, "learning_rate": 0.05}}
KINDS = {
    "disjoint": ("nonoverlapping-balanced", 3),
    "overlapping": ("overlapping-balanced", 3),
    "rotated": ("rotated", 4),
    "flipped": ("flipped", 4),
    "swapped": ("swapped", 4),
    "two-levels": ("two-levels", 4),
    "dimmed": ("dimmed", 2),
    "noisy": ("noisy", 2),
}
"""Name -> kind of split and its hidden groups; of each kind four families: groups of equal sizes and of
unequal, clients with as many images and with 30 to 100 % of these."""
SMALLEST_SHARE = 0.3
UNEQUAL_SIZES = {2: [14, 6], 3: [11, 6, 3], 4: [9, 6, 3, 2]}
WITHOUT_GROUPS: dict[str, dict[str, Any]] = {
    "iid": {"kind": "iid"},
    "iid-unequal-clients": {"kind": "iid", "quantity": 0.1},
    "dirichlet-0.1": {"kind": "dirichlet", "alpha": 0.1},
    "dirichlet-1": {"kind": "dirichlet", "alpha": 1.0},
    "label-skew": {"kind": "label-skew"},
    "continuum": {"kind": "continuum", "arc": 90},
}

Cell: TypeAlias = tuple[str, str, str]
"""Distances, rounds, number."""
CELLS: tuple[Cell, ...] = tuple(product(DISTANCES, ROUNDS, NUMBERS))


class Federation(NamedTuple):
    """What is trained once: a family of a data set with a seed."""

    dataset: str
    family: str
    seed: int


class Row(NamedTuple):
    """What one cell makes of a federation; rows sort by federation and cell."""

    dataset: str
    family: str
    seed: int
    distances: str
    rounds: str
    number: str
    right: int
    """1 if the clusters are the hidden groups; without groups, if there is one cluster."""
    ari: float
    """Without groups as `right`: against one group every other partition has 0."""
    clusters: int


def list_families() -> Iterator[Family]:
    """Yield the 32 families with groups and the six without."""
    for name, (kind, number) in KINDS.items():
        for size, sizes in (("equal", {}), ("unequal", {"sizes": UNEQUAL_SIZES[number]})):
            split = {"kind": kind, "num_clusters": number, **sizes}
            yield Family(f"{name}-{size}", {"split": split}, number)
            yield Family(
                f"{name}-{size}-fewer-images", {"split": {**split, "quantity": SMALLEST_SHARE}}, number
            )
    for name, split in WITHOUT_GROUPS.items():
        yield Family(name, {"split": split})


FAMILIES = {family.name: family for family in list_families()}


def list_federations(parts: Iterable[int] = PARTS) -> list[Federation]:
    """List the federations of these parts, by seed."""
    seeds = [seed for part in parts for seed in PARTS[part]]
    return [Federation(dataset, name, seed) for seed, dataset, name in product(seeds, DATASETS, FAMILIES)]


def build_settings(federation: Federation, mnist: Path) -> dict[str, Any]:
    """Build the settings of a federation's run."""
    dataset: dict[str, Any] = (
        {"dataset": f"npz:{mnist}", **LENET} if federation.dataset == "mnist" else {"dataset": "digits"}
    )
    family = merge_mappings(SHARED, FAMILIES[federation.family].settings)
    return {**family, **dataset, "seed": federation.seed}


def find_groups(rounds: Sequence[Round], num_groups: int, seed: int) -> Iterator[tuple[Cell, Groups]]:
    """Yield the groups that each cell finds; without groups (0) the number cannot be given."""
    for distances, extent in product(DISTANCES, ROUNDS):
        part = rounds if extent == "pooled" else rounds[-1:]
        squares_KK = np.mean([select_distances(each, distances) for each in part], axis=0)
        for number, groups in cut_tree(squares_KK, num_groups, seed):
            yield (distances, extent, number), groups


def cut_tree(squares_KK: Matrix, num_groups: int, seed: int) -> Iterator[tuple[str, Groups]]:
    """Yield each way to the number of groups and the groups that Ward's tree then has."""
    rng = make_generator(seed, "algorithm")
    groups = ward.find_groups(squares_KK, 0, rng)
    score = ward.score_evidence(squares_KK, groups, rng)
    if num_groups:
        yield "told", ward.cut_into_number(squares_KK, num_groups)
    yield "silhouette", groups
    # No score: there is one group, each client is one, or there is no gap between them.
    evident = score is not None and score > EVIDENCE
    yield "evidence", groups if evident else [list(range(len(squares_KK)))]


def select_distances(stored: Round, distances: str) -> Matrix:
    """Select a round's distances: standardised, or of the updates as they are."""
    if distances == "standardised":
        return stored.standardised_MM
    return Products(stored.gram_MM, np.zeros(len(stored.clients)), 0.0).cosine_distances_KK


def build_rows(federation: Federation, shared_prefix: SharedPrefix) -> list[Row]:
    """Build a row for each cell."""
    num_groups = FAMILIES[federation.family].num_groups
    cell_groups = find_groups(shared_prefix.rounds, num_groups, shared_prefix.seed)
    return score_cells(federation, shared_prefix.truth_K, cell_groups)


def score_cells(
    federation: Federation, truth_K: Labels, cell_groups: Iterable[tuple[Cell, Groups]]
) -> list[Row]:
    """Score the groups that cells found against the hidden ones, if the federation has any."""
    if not FAMILIES[federation.family].num_groups:
        truth_K = np.zeros_like(truth_K)
    rows = []
    for cell, groups in cell_groups:
        labels_K = number_groups(groups, len(truth_K))
        ari = round(float(adjusted_rand_score(truth_K, labels_K)), 6)
        rows.append(Row(*federation, *cell, int(is_same_partition(labels_K, truth_K)), ari, len(groups)))
    return rows


def compute_rows(federation: Federation, mnist: Path, folder: Path, data_dir: Path) -> list[Row]:
    """Compute the rows of a federation; train it if the folder does not have it.

    Args:
        federation: which.
        mnist: file of the images drawn from MNIST.
        folder: where rounds are stored.
        data_dir: folder with the images of data sets.
    """
    with threadpool_limits(1):
        prefix = load_shared_prefix(build_settings(federation, mnist), NUM_ROUNDS, folder, data_dir)
        return build_rows(federation, prefix)


def read_rows(path: Path = OUTCOMES) -> list[Row]:
    """Read the rows of a file; none if there is no file."""
    rows = read_csv_rows(path) if path.exists() else []
    types = Row.__annotations__
    return [Row(**{name: types[name](text) for name, text in row.items()}) for row in rows]


def write_rows(rows: Iterable[Row], path: Path = OUTCOMES) -> None:
    """Write the rows, sorted, in place of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when it is whole: an interrupted write would lose the rows of hours.
    unfinished = path.with_suffix(".part")
    with unfinished.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows(sorted(rows))
    unfinished.rename(path)


def list_trained(rows: Iterable[Row]) -> set[Federation]:
    """List the federations that have rows."""
    return {Federation(row.dataset, row.family, row.seed) for row in rows}


def main() -> None:
    """Run what a part lacks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="Where the stored rounds are.")
    parser.add_argument(
        "mnist", type=Path, help="The images drawn from MNIST; seeds depend on the file's name."
    )
    parser.add_argument("--part", type=int, choices=PARTS, required=True)
    parser.add_argument("--jobs", type=int, default=1, help="Processes.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    given = parser.parse_args()
    rows = read_rows()
    missing = [each for each in list_federations([given.part]) if each not in list_trained(rows)]
    compute = partial(compute_rows, mnist=given.mnist.resolve(), folder=given.folder, data_dir=given.data)
    executor = ProcessPoolExecutor(given.jobs)
    try:
        for federation, new in zip(missing, executor.map(compute, missing), strict=True):
            rows += new
            write_rows(rows)
            print(*federation, flush=True)
    finally:
        # An interrupted part does not wait for federations that have not begun.
        executor.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
