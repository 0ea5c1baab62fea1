"""Compare the first rounds of the OCFL paper's scenarios with the authors' archive.

    OMP_NUM_THREADS=1 python -m benchmarks.first_rounds FOLDER --data DATA --reference REFERENCE --jobs 2

Trains the runs of `paper` with plain averaging, at full size and without tests, until two rounds after the
first rise of the temperature. A scenario that the folder has is not trained again. Then it prints three
tables: the temperature by round and the round of its first rise; what each clusterer finds; and the loss
of clients minus the entropy of their classes (`benchmarks.plateau`). REFERENCE holds the archive's files.

Another data set, model or size: `--dataset`, `--models`, `KEY=VALUE`, `--scenarios
15-nonoverlapping-balanced,...`, `--beside cifar10` for the archive's data set. The archive's cosines are over
whole states, so for a network with BatchNorm the first two tables have a second row: with these.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import numpy as np
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks.groups.decisions import replay_decisions
from benchmarks.groups.stored import Round, SharedPrefix, load_first_rounds
from benchmarks.plateau import (
    Plateau,
    find_first_rise,
    print_plateaus,
    read_archived_plateau,
    read_archived_temperatures,
    write_rows,
)
from fedgrid.algorithms.clustering.measures import compute_temperature
from fedgrid.algorithms.updates.products import Products
from fedgrid.engine.federation.clients.process import keep_freed_memory
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.grids.presets.load import load_grid
from fedgrid.tracking.papers.shared.paper import read_csv_rows

ROUNDS_AFTER_RISE, MAX_ROUNDS = 2, 15
"""Rounds that are trained after the first rise, and in all at most."""
CLUSTERERS = {
    "ocfl-kmeans": "OCFL-KM",
    "ocfl-affinity": "",
    "ocfl-affinity-as-published": "OCFL-AFF",
    "ocfl-meanshift": "OCFL-MS",
    "ocfl-hdbscan": "",
    "ocfl-hdbscan-as-published": "OCFL-HDB",
    "evident-groups": "",
}
"""Our algorithm -> the archive's name of the one that does the same; empty if it has none."""
Scenario: TypeAlias = tuple[str, int, str]
"""Data set, clients and split, as in the archive's files but in our spelling."""


def compare_states(rounds: Sequence[Round]) -> list[Round]:
    """Replace the products of each round by those over whole states, where these differ."""
    return [
        each if each.states_gram_MM is None else replace(each, gram_MM=each.states_gram_MM) for each in rounds
    ]


def list_views(shared_prefix: SharedPrefix) -> dict[str, SharedPrefix]:
    """Build the rounds as each comparison sees them, by a suffix of the row's title.

    One view where states are parameters alone, two for a network with buffers. Standardised distances, which
    `evident-groups` compares too, are those of the parameters in both.
    """
    if all(each.states_gram_MM is None for each in shared_prefix.rounds):
        return {"": shared_prefix}
    states = replace(shared_prefix, rounds=compare_states(shared_prefix.rounds))
    return {", parameters": shared_prefix, ", states": states}


def compute_temperatures(rounds: Sequence[Round]) -> list[float]:
    """Compute the temperature of each round."""
    products = [Products(each.gram_MM, np.zeros(len(each.clients)), 0.0) for each in rounds]
    return [compute_temperature(each.cosine_distances_KK) for each in products]


def is_enough(rounds: Sequence[Round], limit: int = MAX_ROUNDS) -> bool:
    """Check whether both first rises are `ROUNDS_AFTER_RISE` rounds ago, or it is round `limit`.

    Both: over the parameters, and over whole states.
    """
    for seen in (rounds, compare_states(rounds)):
        rise = find_first_rise(compute_temperatures(seen))
        if len(rounds) < (limit if rise is None else min(limit, rise + ROUNDS_AFTER_RISE)):
            return False
    return True


def train_scenario(config: RunConfig, folder: Path, data_dir: Path, limit: int) -> SharedPrefix:
    """Load the first rounds of a scenario from the folder; train them if it lacks them with this limit.

    Args:
        config: a run of plain averaging.
        folder: where rounds are stored.
        data_dir: folder with the images of data sets.
        limit: rounds at most; part of the file's name.
    """
    # As in the engine's workers: without it a quarter of the time are page faults.
    keep_freed_memory()
    path = folder / f"{sha256(f'{config.canonical_json()} {limit}'.encode()).hexdigest()[:16]}.npz"
    with threadpool_limits(1):
        return load_first_rounds(config, partial(is_enough, limit=limit), path, data_dir)


def describe_clustering(shared_prefix: SharedPrefix, name: str) -> str:
    """Describe when an algorithm clusters, how many clusters it finds, and their ARI."""
    number, labels_K = list(replay_decisions(shared_prefix, name, {}))[-1]
    if len(set(labels_K.tolist())) == 1:
        return f"none by {number}"
    return (
        f"{number}: {len(set(labels_K.tolist()))}, {adjusted_rand_score(shared_prefix.truth_K, labels_K):.2f}"
    )


class Archive:
    """The authors' numbers: temperatures by round, and the clusterings of Table 2."""

    def __init__(self, reference: Path) -> None:
        self.temperatures: Mapping[Scenario, list[float]] = defaultdict(list)
        for row in read_csv_rows(reference / "published_temperature.csv"):
            self.temperatures[_parse_scenario(row)].append(float(row["temperature"]))
        # CIFAR-10's runs of the temperature have another configuration than those of OCFL.
        for results in (reference / "archive/experiments/CIFAR10").glob("*/*/*/kmeans_*/results"):
            row = dict(zip(("dataset", "overlap", "balance", "n"), results.parts[-6:-2], strict=True))
            self.temperatures[_parse_scenario(row)] = read_archived_temperatures(results)
        rows = read_csv_rows(reference / "published_clustering.csv")
        self.clusterings = {(_parse_scenario(row), row["algorithm"]): row for row in rows}

    def describe_clustering(self, scenario: Scenario, name: str) -> str:
        """Describe the clustering of an algorithm of the archive, in the same form."""
        row = self.clusterings[scenario, name]
        return f"{row['round_published']}: {row['k_final']}, {float(row['ARI_final']):.2f}"


def _parse_scenario(row: Mapping[str, str]) -> Scenario:
    overlap = row["overlap"].replace("overlaping", "overlapping")
    return row["dataset"].lower(), int(row["n"]), f"{overlap}-{row['balance']}"


def build_plateau(run: RunConfig, shared_prefix: SharedPrefix) -> Plateau:
    """Collect losses and accuracies of a scenario's clients, all of whom train in every round."""
    fits = [each.fit_M2 for each in shared_prefix.rounds if each.fit_M2 is not None]
    if shared_prefix.counts_KL is None or not fits:
        raise SystemExit("the folder has rounds from before losses were stored: train into another folder")
    loss_RK, accuracy_RK = np.moveaxis(np.stack(fits), 2, 0)
    return Plateau(
        network=run.model,
        scenario=f"{run.split.kind}, {run.clients}",
        temperature_R=compute_temperatures(shared_prefix.rounds),
        loss_RK=loss_RK,
        accuracy_RK=accuracy_RK,
        counts_KL=shared_prefix.counts_KL,
        truth_K=shared_prefix.truth_K,
    )


def print_tables(
    runs: Sequence[RunConfig],
    shared_prefixes: Sequence[SharedPrefix],
    archive: Archive,
    archived_dataset: str,
) -> None:
    """Print the tables of temperatures and of clusterings.

    Args:
        runs: the runs of plain averaging, one a scenario.
        shared_prefixes: the first rounds of each.
        archive: the authors' numbers.
        archived_dataset: the archive's data set to compare with.
    """
    scenarios = [(archived_dataset, run.clients, run.split.kind) for run in runs]
    print("| scenario | temperature by round | the archive's | first rise | archive's | its OCFL-KM |")
    print(f"|{' --- |' * 6}")
    for scenario, shared_prefix in zip(scenarios, shared_prefixes, strict=True):
        theirs = archive.temperatures[scenario]
        for suffix, seen in list_views(shared_prefix).items():
            values = compute_temperatures(seen.rounds)
            cells = (
                f"{scenario[2]}, {scenario[1]}{suffix}",
                " ".join(f"{value:.4g}" for value in values),
                " ".join(f"{value:.4g}" for value in theirs[: len(values)]),
                find_first_rise(values),
                find_first_rise(theirs),
                archive.clusterings[scenario, "OCFL-KM"]["round_published"],
            )
            print(f"| {' | '.join(map(str, cells))} |")
    names = [f"{name} | {theirs} there" if theirs else name for name, theirs in CLUSTERERS.items()]
    print(f"\n| round: clusters, ARI | {' | '.join(names)} |")
    print(f"|{' --- |' * (1 + len(CLUSTERERS) + sum(map(bool, CLUSTERERS.values())))}")
    for scenario, shared_prefix in zip(scenarios, shared_prefixes, strict=True):
        for suffix, seen in list_views(shared_prefix).items():
            row = [f"{scenario[2]}, {scenario[1]}{suffix}"]
            for name, published in CLUSTERERS.items():
                row.append(describe_clustering(seen, name))
                row += [archive.describe_clustering(scenario, published)] if published else []
            print(f"| {' | '.join(row)} |")


def main() -> None:
    """Train what the folder lacks, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="Where the first rounds are stored.")
    parser.add_argument("--reference", type=Path, required=True, help="The archive's csv files.")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--beside", default="mnist", help="The archive's data set.")
    parser.add_argument("--models", default="", help="lenet5,...; the preset's by default.")
    parser.add_argument("--scenarios", default="", help="15-overlapping-balanced,...; all eight by default.")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE of the runs.")
    parser.add_argument("--limit", type=int, default=MAX_ROUNDS, help="Rounds at most.")
    parser.add_argument("--rows", type=Path, help="csv file for `benchmarks.plateau`.")
    parser.add_argument("--jobs", type=int, default=1, help="Processes.")
    given = parser.parse_intermixed_args()
    options = {"dataset": given.dataset, "algorithm": "fedavg"}
    options |= {"model": given.models.split(",")} if given.models else {}
    runs = load_grid("paper", options, given.overrides, given.data).runs
    selected = {text for text in given.scenarios.split(",") if text}
    runs = tuple(run for run in runs if not selected or f"{run.clients}-{run.split.kind}" in selected)
    task = partial(train_scenario, folder=given.folder, data_dir=given.data, limit=given.limit)
    with ProcessPoolExecutor(given.jobs) as executor:
        shared_prefixes = list(executor.map(task, runs))
    print_tables(runs, shared_prefixes, Archive(given.reference), given.beside)
    plateaus = [build_plateau(*pair) for pair in zip(runs, shared_prefixes, strict=True)]
    if given.beside == "mnist":
        plateaus.append(read_archived_plateau(given.reference))
    print_plateaus(plateaus)
    if given.rows:
        write_rows(given.rows, plateaus)


if __name__ == "__main__":
    main()
