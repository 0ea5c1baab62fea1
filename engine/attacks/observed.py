"""What the server of a run has seen in a round, the last one mostly: computed again from its seed and state.

A round is a function of the state before it, so the updates that were sent are trained again, with the same
bits on the same kind of machine. The norms in the run's records say whether that holds.

Shapes: K clients, P entries of a state vector, of which W are parameters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.contract.layout import Layout
from fedgrid.algorithms.contract.updates import Vector
from fedgrid.engine.before_training.meeting import meet
from fedgrid.engine.checkpoint import RunState
from fedgrid.engine.clients.messages import Setup, TrainTask
from fedgrid.engine.clients.participation import Participation
from fedgrid.engine.clients.pool import InProcessPool
from fedgrid.engine.data.images import HeldImages
from fedgrid.engine.disturbances.held import Changes
from fedgrid.engine.encoders.encoder import Encoder
from fedgrid.engine.models.flat_vectors import layout_of
from fedgrid.engine.models.initialisation import blank, initial_vector
from fedgrid.engine.run_config import RunConfig
from fedgrid.engine.seeds import generator
from fedgrid.engine.session import prepare
from fedgrid.engine.uplink.accountant import Accountant
from fedgrid.engine.uplink.budget import affordable


@dataclass(frozen=True)
class SentUpdate:
    """One client's part of the last round, as the server saw it."""

    start: Vector
    """The model that it was sent and trained, shape (P,)."""
    update: Vector
    """What it sent, after all steps of the uplink, shape (P,)."""
    norm: float
    """Euclidean norm of the update."""

    @property
    def model(self) -> Vector:
        """The client's model after its local training, as far as the server knows it, shape (P,)."""
        return self.start + self.update


@dataclass(frozen=True)
class Observed:
    """A finished run in the eyes of its server, and the images that an attack is judged by."""

    config: RunConfig
    setup: Setup
    layout: Layout
    labels_K: Labels
    """The partition after the last round."""
    models: tuple[Vector, ...]
    """The served models, each of shape (P,)."""
    model_K: NDArray[np.int64]
    """For each client the position of its model."""
    sent: Mapping[int, SentUpdate]
    """By client, of those that sent a usable update in it; none where nothing is sent, or nobody knows."""
    round_index: int = 0
    """The round that is observed, from 0."""

    @property
    def alone_K(self) -> NDArray[np.bool_]:
        """Whether a client's cluster has no other client, so that the cluster's model is the client's own."""
        _, inverse_K, counts = np.unique(self.labels_K, return_inverse=True, return_counts=True)
        return np.asarray(counts[inverse_K] == 1)

    def held(self, client: int) -> tuple[HeldImages, HeldImages]:
        """Return the training and test images of a client in the round."""
        return self.setup.clients[client].at(self.round_index)

    def messages(self, pool: InProcessPool, encoder: Encoder | None) -> dict[int, Mapping[str, NDArray[Any]]]:
        """Return what each client has said about its data before its first round; nothing if none has."""
        message = self.config.make_algorithm().message()
        if message is None:
            return {}
        pool.prepare(self.setup)
        described = pool.describe(range(self.config.clients), message, encoder)
        return {client: each.payload for client, each in enumerate(described)}


def observe(
    config: RunConfig,
    before: RunState | None,
    after: RunState,
    data_dir: Path,
    encoder: Encoder | None = None,
) -> Observed:
    """Return what the server of a run has seen in one of its rounds.

    Args:
        config: the run.
        before: its state before the round; None if that is the first round, or not known: then nobody knows
            what was sent either.
        after: its state after the round.
        data_dir: the folder of the images.
        encoder: what its clients' messages are made with, if they are.

    Raises:
        DataError: the images are missing.
        RunError: a client's training fails.
    """
    setup, truth_K = prepare(config, data_dir)
    _, *shape = setup.server_set.images.shape
    of_model = config.model, tuple(shape), setup.num_classes
    layout = layout_of(blank(*of_model))
    algorithm = config.make_algorithm()
    served = algorithm.served(after.state)
    if before is None and after.rounds_done == 1:
        fresh = partial(initial_vector, *of_model, config.root_seed)
        state = algorithm.init(layout, config.clients, fresh, generator(config.root_seed, "init"))
        before = RunState(0, algorithm.reveal(state, truth_K))
    sent = {}
    if algorithm.traits.sends_updates and before is not None:
        sent = _sent(config, setup, layout, before, truth_K, encoder)
    labels_K, at = after.state.labels_K, after.rounds_done - 1
    return Observed(config, setup, layout, labels_K, served.models, served.model_K, sent, at)


def _sent(
    config: RunConfig,
    setup: Setup,
    layout: Layout,
    before: RunState,
    truth_K: Labels,
    encoder: Encoder | None,
) -> dict[int, SentUpdate]:
    """Train the clients of the round again; return by client what they sent."""
    algorithm, at, seed = config.make_algorithm(), before.rounds_done, config.root_seed
    part = Participation(config.clients, seed, config.participation, config.dropout, config.joins)
    changes, pool = Changes.of(setup.clients), InProcessPool()
    pool.prepare(setup)
    if changes.begins(at):
        truths = (changes.truth(truth_K, index) for index in (at, at - 1))
        before = replace(before, state=algorithm.reveal(before.state, *truths))
    newcomers, present = part.newcomers(at), part.present(at)
    state, _ = meet(algorithm, newcomers, present, before, pool, layout, seed, encoder)
    orders_before_budget = algorithm.orders(
        state, at, part.presence(at), generator(seed, "orders", round_index=at)
    )
    accountant = Accountant.of(config.privacy, config.uplink, algorithm, seed)
    orders = affordable(accountant, before.spent_K, list(orders_before_budget))
    dropped = part.dropped(at, [order.client for order in orders])
    tasks = [TrainTask(order, at, evaluate=False) for order in orders if order.client not in dropped]
    replies = pool.train(tasks, state.models, before.memories)
    return {
        reply.report.client: SentUpdate(
            state.models[reply.report.chosen], reply.update, reply.report.update_norm
        )
        for reply in replies
        if reply.report.usable
    }
