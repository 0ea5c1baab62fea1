"""Train federations by plain averaging and store their rounds, on which every method decides about groups.

Until an algorithm clusters, its rounds are those of FedAvg, and what it sees of the updates are their inner
products, as they are and standardised. So a federation is trained once, in this process, and these matrices
are stored in a folder; to decide again takes milliseconds (`benchmarks.groups.decisions`).

Shapes: K clients of the federation, M of them in a round, L classes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.groups.few_classes import select_classes
from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings
from fedgrid.algorithms.contract.base import Diagnostics, Labels, State
from fedgrid.algorithms.updates.source import Matrix
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.clients.messages import Setup
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.models.flat_vectors import build_blank, draw_initial_vector, read_layout
from fedgrid.engine.federation.round.federation import Federation
from fedgrid.engine.federation.round.next_round import next_round
from fedgrid.engine.federation.round.participation import Participation
from fedgrid.engine.federation.round.record import RoundRecord
from fedgrid.engine.federation.training.settings import Evaluation
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import find_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup

NEVER = 10**6
"""So many rounds that the last one, with its tests, is never reached."""
SPARE_ROUNDS = 2
"""Rounds after every two clients were in a round together: two rounds must agree."""


class DealingError(Exception):
    """A seed leaves a client without an image to train on or to be tested on."""


@dataclass(frozen=True)
class Round:
    """What a server sees of the updates of one round."""

    clients: tuple[int, ...]
    gram_MM: Matrix
    """Inner products of the updates."""
    standardised_MM: Matrix
    """1 - cosine of the standardised updates."""
    states_gram_MM: Matrix | None = None
    """Inner products over the whole state; None if all of it is parameters."""
    fit_M2: Matrix | None = None
    """Mean cross-entropy and accuracy of each client's last local epoch, as its model changes; None in files
    written before these were stored."""


@dataclass(frozen=True)
class SharedPrefix:
    """The first rounds of a federation, without clusters."""

    truth_K: Labels
    """The hidden groups."""
    seed: int
    rounds: Sequence[Round]
    counts_KL: Matrix | None = None
    """Training images by class; None in files written before these were stored."""


StopRule: TypeAlias = Callable[[Sequence[Round]], bool]
"""Checks whether the rounds so far are enough."""


class Recorder(FedOpt):
    """Plain averaging that records what a clusterer would see."""

    rounds: list[Round]

    def __init__(self) -> None:
        super().__init__(FedOptSettings())
        # An algorithm refuses to be changed: its state belongs into `State`.
        vars(self).update(rounds=[])

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Record the products of the round's updates, and leave the clusters as they are."""
        states_gram_MM = None
        if updates.layout.size > updates.layout.num_parameters:
            vectors = dict(zip(updates.clients, updates.vectors(), strict=True))
            states_gram_MM = Updates(vectors, updates.layout, similarity_over="state").gram_KK
        self.rounds.append(
            Round(updates.clients, updates.gram_KK, updates.standardised_distances_KK, states_gram_MM)
        )
        return state, Diagnostics()


def load_shared_prefix(
    given: Mapping[str, Any], num_rounds: int, folder: Path, data_dir: Path
) -> SharedPrefix:
    """Load the first rounds of a run with these settings; train them if the folder lacks them.

    With partial participation they go on until every two clients were in a round together, and `SPARE_ROUNDS`
    rounds more.

    Args:
        given: settings of the run, with `classes` for the first classes alone.
        num_rounds: rounds at least.
        folder: where rounds are stored.
        data_dir: folder with the images of data sets.

    Raises:
        DealingError: the images cannot be dealt out.
    """
    config = complete_config(select_classes(given, folder, data_dir), data_dir)

    def is_enough(rounds: Sequence[Round]) -> bool:
        return len(rounds) >= max(num_rounds, find_pairing_round(config.clients, rounds) + SPARE_ROUNDS)

    path = folder / f"{sha256(f'{config.canonical_json()} {num_rounds}'.encode()).hexdigest()[:16]}.npz"
    return load_first_rounds(config, is_enough, path, data_dir)


def load_first_rounds(config: RunConfig, is_enough: StopRule, path: Path, data_dir: Path) -> SharedPrefix:
    """Load the rounds in a file; without it, train until they are enough, and write it.

    Args:
        config: a run of plain averaging.
        is_enough: checks whether the rounds so far are enough.
        path: of the file.
        data_dir: folder with the images of data sets.

    Raises:
        DealingError: the images cannot be dealt out.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            setup, truth_K = prepare_setup(config, data_dir)
        except ConfigError as error:
            raise DealingError(str(error)) from error
        counts = [np.bincount(client.train.labels, minlength=setup.num_classes) for client in setup.clients]
        rounds = train_rounds(config, setup, truth_K, Recorder(), is_enough, data_dir)
        _write_rounds(path, SharedPrefix(truth_K, config.root_seed, rounds, np.stack(counts)))
    with np.load(path) as arrays:
        numbers = range(sum(name.startswith("clients") for name in arrays.files))
        rounds = [
            Round(
                tuple(arrays[f"clients_{n}"].tolist()),
                arrays[f"gram_{n}"],
                arrays[f"standardised_{n}"],
                arrays.get(f"of_states_{n}"),
                arrays.get(f"fit_{n}"),
            )
            for n in numbers
        ]
        return SharedPrefix(arrays["truth"], config.root_seed, rounds, arrays.get("counts"))


def train_rounds(
    config: RunConfig,
    setup: Setup,
    truth_K: Labels,
    recorder: Recorder,
    is_enough: StopRule,
    data_dir: Path,
) -> list[Round]:
    """Train until the rounds that the recorder has are enough, and return them."""
    dataset = find_dataset(config.dataset, data_dir)
    model_arguments = config.model, dataset.inputs, dataset.num_classes
    federation = Federation(
        algorithm=recorder,
        layout=read_layout(build_blank(*model_arguments)),
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
    progress = federation.create_first_state(partial(draw_initial_vector, *model_arguments, config.root_seed))
    rounds = recorder.rounds
    while not is_enough(rounds):
        done = len(rounds)
        progress, record = next_round(federation, progress, pool)
        # A round without an update is not recorded: nothing was clustered in it.
        rounds[done:] = [
            replace(stored, fit_M2=_collect_fit(record, stored.clients)) for stored in rounds[done:]
        ]
    return rounds


def find_pairing_round(num_clients: int, rounds: Sequence[Round]) -> int:
    """Find the first round, from 1, by which every two clients were in a round together.

    If some were not, that is the round after the last.
    """
    paired_KK = np.zeros((num_clients, num_clients), bool)
    for number, each in enumerate(rounds, 1):
        paired_KK[np.ix_(each.clients, each.clients)] = True
        if paired_KK.all():
            return number
    return len(rounds) + 1


def _collect_fit(record: RoundRecord, clients: Sequence[int]) -> Matrix:
    """Collect loss and accuracy of these clients' training, shape (M, 2)."""
    rows = [record.clients[client] for client in clients]
    return np.array([(row["train_loss"], row["train_accuracy"]) for row in rows])


def _write_rounds(path: Path, shared_prefix: SharedPrefix) -> None:
    """Write the rounds, and rename the file when it is whole."""
    arrays: dict[str, Any] = {"truth": shared_prefix.truth_K, "counts": shared_prefix.counts_KL}
    for number, each in enumerate(shared_prefix.rounds):
        arrays[f"clients_{number}"] = np.array(each.clients)
        arrays[f"gram_{number}"] = each.gram_MM
        arrays[f"standardised_{number}"] = each.standardised_MM
        if each.states_gram_MM is not None:
            arrays[f"of_states_{number}"] = each.states_gram_MM
        if each.fit_M2 is not None:
            arrays[f"fit_{number}"] = each.fit_M2
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(file, **arrays)
    part.rename(path)
