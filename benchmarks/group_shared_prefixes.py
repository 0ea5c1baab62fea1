"""Rounds of plain averaging, kept as Gram matrices: on them every method decides about groups.

Until an algorithm clusters, its rounds are those of FedAvg, and what it sees of the updates are their inner
products. So a federation is trained once, in this process, and its Gram matrices are kept in a folder; to
decide again takes milliseconds. Vectors with the same inner products stand for the updates.

Shapes: K clients of the federation, M of them in a round.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fedgrid.algorithms.contract.base import Diagnostics, Labels, State
from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.updates import Matrix, Updates
from fedgrid.algorithms.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.registry import create
from fedgrid.engine.clients.messages import Setup
from fedgrid.engine.clients.pool import InProcessPool
from fedgrid.engine.configuration.complete import complete
from fedgrid.engine.configuration.run_config import RunConfig
from fedgrid.engine.data.datasets import find
from fedgrid.engine.models.flat_vectors import layout_of
from fedgrid.engine.models.initialisation import blank, initial_vector
from fedgrid.engine.round.federation import Federation
from fedgrid.engine.round.next_round import next_round
from fedgrid.engine.round.participation import Participation
from fedgrid.engine.run_setup import prepare
from fedgrid.engine.seeds import generator
from fedgrid.engine.training.settings import Evaluation

NEVER = 10**6
"""So many rounds that the last one, with its tests, is never reached."""
SPARE = 2
"""Rounds after every two clients have met: two must agree."""


@dataclass(frozen=True)
class SharedPrefix:
    """Rounds of a federation without clusters."""

    truth_K: Labels
    seed: int
    rounds: Sequence[tuple[tuple[int, ...], Matrix]]
    """Clients that sent an update, and its inner products with the others', shape (M, M)."""


class Recorder(FedOpt):
    """Plain averaging that keeps each round's Gram matrix."""

    def __init__(self) -> None:
        super().__init__(FedOptSettings())
        self.seen: list[tuple[tuple[int, ...], Matrix]] = []

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Note what a clusterer would see."""
        self.seen.append((updates.clients, updates.gram_KK))
        return state, Diagnostics()


def shared_prefix_of(given: Mapping[str, Any], num_rounds: int, folder: Path, data_dir: Path) -> SharedPrefix:
    """Return the first rounds of a run with these settings; train them if the folder does not have them.

    With partial participation they go on until every two clients have met, and `SPARE` rounds more.
    """
    config = complete({**given, "algorithm": "fedavg"}, data_dir)
    name = sha256(f"{config.canonical_json()} {num_rounds}".encode()).hexdigest()[:16]
    path = folder / f"{name}.npz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        setup, truth_K = prepare(config, data_dir)
        seen = train(config, setup, truth_K, num_rounds, data_dir)
        arrays: dict[str, Any] = {
            f"clients_{index:03d}": np.array(clients) for index, (clients, _) in enumerate(seen)
        }
        arrays |= {f"gram_{index:03d}": gram for index, (_, gram) in enumerate(seen)}
        with path.with_suffix(".part").open("wb") as file:
            np.savez_compressed(file, truth=truth_K, **arrays)
        path.with_suffix(".part").rename(path)
    with np.load(path) as kept:
        rounds = [
            (tuple(kept[name].tolist()), kept[name.replace("clients", "gram")])
            for name in sorted(kept.files)
            if name.startswith("clients")
        ]
        return SharedPrefix(kept["truth"], config.root_seed, rounds)


def train(
    config: RunConfig,
    setup: Setup,
    truth_K: Labels,
    num_rounds: int,
    data_dir: Path,
    recorder: Recorder | None = None,
) -> list[tuple[tuple[int, ...], Matrix]]:
    """Return the clients and the Gram matrix of each round of plain averaging, at least `num_rounds`."""
    dataset = find(config.dataset, data_dir)
    of_model = config.model, dataset.shape, dataset.num_classes
    recorder = Recorder() if recorder is None else recorder
    federation = Federation(
        algorithm=recorder,
        layout=layout_of(blank(*of_model)),
        seed=config.root_seed,
        rounds=NEVER,
        evaluation=Evaluation(every=NEVER),
        truth_K=truth_K,
        train_images_K=[len(client.train) for client in setup.clients],
        test_images_K=[len(client.test) for client in setup.clients],
        participation=Participation(
            config.clients, config.root_seed, config.participation, config.dropout, config.joins
        ),
        weights=config.weights,
    )
    pool = InProcessPool()
    pool.prepare(setup)
    progress = federation.begin(partial(initial_vector, *of_model, config.root_seed))
    while len(recorder.seen) < max(num_rounds, all_met(config.clients, recorder.seen) + SPARE):
        progress, _ = next_round(federation, progress, pool)
    return recorder.seen


def all_met(num_clients: int, rounds: Sequence[tuple[tuple[int, ...], Matrix]]) -> int:
    """Return the round, from 1, in which the last two clients have met; if they have not, the next one."""
    met_KK = np.zeros((num_clients, num_clients), bool)
    for number, (clients, _) in enumerate(rounds, 1):
        met_KK[np.ix_(clients, clients)] = True
        if met_KK.all():
            return number
    return len(rounds) + 1


def decisions(
    shared_prefix: SharedPrefix, name: str, settings: Mapping[str, Any]
) -> Iterator[tuple[int, Labels]]:
    """Yield (round, each client's cluster) of each round, up to that in which the algorithm clusters."""
    algorithm = create(name, settings)
    num_clients = len(shared_prefix.truth_K)
    layout = Layout(("stand-in",), ((num_clients,),), num_clients)
    zeros = np.zeros(num_clients, np.float32)
    state = algorithm.init(layout, num_clients, lambda _: zeros, generator(shared_prefix.seed, "init"))
    for index, (clients, gram_MM) in enumerate(shared_prefix.rounds):
        absent = set(range(num_clients)) - set(clients)
        vectors = dict(zip(clients, stand_ins(gram_MM, num_clients), strict=True))
        updates = Updates(vectors, layout, absent=absent)
        rng = generator(shared_prefix.seed, "algorithm", round_index=index)
        state, diagnostics = algorithm.step(state, index, updates, rng)
        yield index + 1, state.labels_K
        if diagnostics.clustered:
            return


def stand_ins(gram_MM: Matrix, size: int) -> np.ndarray:
    """Return vectors with these inner products, float32, shape (M, size)."""
    values_M, vectors_MM = np.linalg.eigh(gram_MM)
    rows = np.zeros((len(gram_MM), size), np.float32)
    rows[:, : len(gram_MM)] = vectors_MM * np.sqrt(np.maximum(values_M, 0.0))
    return rows
