"""Count the rounds that a finished grid's runs trained, and the fewest with perfect sharing.

    python -m benchmarks.shared_rounds paper-digits --storage runs

A client's training in a round is fixed by its shared prefix, the round and the model it starts from. That
model is the mean over a cluster whose members each started from some model, and so on back to the first one.
Two runs can share a training only if all of that history is equal; trainings with different histories have
different bits. So the number of different histories is the least that any cache can do, whatever its keys.
Every reply counts as usable and every client as sampled in every round: other grids have no such bound here.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow.parquet as pq

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.results.grid_folder import GridFolder
from fedgrid.grids.results.outcome import is_finished
from fedgrid.grids.results.times import read_times

Training: TypeAlias = tuple[str, int, int, int]
"""Shared prefix, round, client, and the number of the history of its model."""
Labels: TypeAlias = Sequence[Mapping[int, int]]
"""Client -> cluster, of each round."""
COLUMNS = ["round", "client", "cluster"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the rounds requested, trained and needed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("grid")
    parser.add_argument("--storage", default="runs")
    given = parser.parse_args(arguments)
    storage = Storage.from_text(given.storage)
    runs = [run for run in GridFolder(storage, given.grid).read_runs() if is_finished(storage, run)]
    requested = sum(run.training.rounds for run in runs)
    trained = sum(read_times(build_folder_path(storage.root, run)).rounds_computed for run in runs)
    least = count_needed_rounds([(run, read_labels(storage, run)) for run in runs])
    print(f"{len(runs)} finished runs, {requested:,} rounds requested")
    shares = [f"{rounds / requested:.1%}" for rounds in (trained, least)]
    print(f"{trained:,.0f} trained ({shares[0]}), {least:,.0f} the least ({shares[1]})")


def read_labels(storage: Storage, run: RunConfig) -> Labels:
    """Read round by round the cluster of each client, as recorded."""
    table = pq.read_table(build_folder_path(storage.root, run) / "clients.parquet", columns=COLUMNS)
    rounds: dict[int, dict[int, int]] = defaultdict(dict)
    for number, client, cluster in zip(*(table[name].to_pylist() for name in COLUMNS), strict=True):
        rounds[number][client] = cluster
    return [rounds[number] for number in sorted(rounds)]


def count_needed_rounds(runs: Iterable[tuple[RunConfig, Labels]]) -> float:
    """Count the rounds of training that the runs need; a training counts as its share of the clients."""
    history_numbers: dict[object, int] = {}
    needed: dict[Training, float] = {}
    for run, rounds in runs:
        needed |= dict.fromkeys(list_trainings(run, rounds, history_numbers), 1 / run.clients)
    return sum(needed.values())


def list_trainings(run: RunConfig, rounds: Labels, history_numbers: dict[object, int]) -> Iterator[Training]:
    """List a run's trainings, with the number of the history of each model.

    Args:
        run: the run.
        rounds: its clusters, round by round.
        history_numbers: round and members of a cluster, with the histories of their models -> number of the
            history of its mean; shared by all runs and extended here.
    """
    # 0 is the initial model, which all clients and all runs of a shared prefix have.
    history = dict.fromkeys(range(run.clients), 0)
    for number, cluster in enumerate(rounds, 1):
        for client, model in history.items():
            yield run.shared_prefix, number, client, model
        members: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for client, label in sorted(cluster.items()):
            members[label].append((client, history[client]))
        for group in members.values():
            model = history_numbers.setdefault((number, *group), len(history_numbers) + 1)
            history |= dict.fromkeys((client for client, _ in group), model)


if __name__ == "__main__":
    main()
