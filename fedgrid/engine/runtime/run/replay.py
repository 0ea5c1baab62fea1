"""The view of a run's server in a round, the last one mostly: computed again from the run's seed and state.

A round is a function of the state before it, so the updates that were sent are trained again, with the same
bits on the same kind of machine. The norms in the run's records say whether that holds.

Shapes: K clients, P entries of a state vector, of which W are parameters.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedgrid.algorithms.contract.base import Labels
from fedgrid.algorithms.updates.source import Layout, Vector
from fedgrid.engine.federation.clients.messages import Setup, TrainTask
from fedgrid.engine.federation.clients.process import fix_numerics
from fedgrid.engine.federation.clients.workspace import build_module
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.data.images import HeldImages
from fedgrid.engine.federation.encoders.encoder import Encoder
from fedgrid.engine.federation.round.federation import Federation, make_model_source, query_served_models
from fedgrid.engine.federation.round.plan import plan_round
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm
from fedgrid.engine.runtime.run.prepare import prepare_setup


@dataclass(frozen=True)
class SentUpdate:
    """One client's part of the round, as the server saw it."""

    start: Vector
    """The model that it got and trained, shape (P,)."""
    update: Vector
    """The update that it sent, after all steps of the uplink, shape (P,)."""
    norm: float
    """Euclidean norm of the update, to be compared with that in the records."""

    @property
    def model(self) -> Vector:
        """The client's model after its local training, as far as the server can compute it, shape (P,)."""
        return self.start + self.update


@dataclass(frozen=True)
class ObservedRound:
    """A run in one of its rounds in the eyes of its server, and the images of its clients."""

    config: RunConfig
    setup: Setup
    layout: Layout
    labels_K: Labels
    """The partition after the round, shape (K,)."""
    models: tuple[Vector, ...]
    """The served models, each of shape (P,)."""
    model_K: NDArray[np.int64]
    """Position of each client's model, shape (K,)."""
    sent: Mapping[int, SentUpdate]
    """The clients that sent a usable update in it, by number; empty if nothing is sent, or the state before
    is missing."""
    round_index: int = 0
    """The round that is observed, from 0."""

    @property
    def alone_K(self) -> NDArray[np.bool_]:
        """Whether a client is alone in its cluster, so that the cluster's model is its own, shape (K,)."""
        _, inverse_K, counts = np.unique(self.labels_K, return_inverse=True, return_counts=True)
        return np.asarray(counts[inverse_K] == 1)

    def select_images(self, client: int) -> tuple[HeldImages, HeldImages]:
        """Select the training and test images of a client in the round."""
        return self.setup.clients[client].select_images(self.round_index)

    def fix_run_numerics(self) -> AbstractContextManager[None]:
        """Make a context within which numbers have the bits of the run."""
        return fix_numerics(self.config.training.tf32)

    def build_run_module(self) -> nn.Module:
        """Build a module of the run's model that maps images of [0, 1] to logits, on the CPU, in float32."""
        training = self.setup.training.model_copy(update={"precision": "float32"})
        return build_module(replace(self.setup, training=training), "cpu")

    def describe_clients(self, encoder: Encoder | None) -> dict[int, Mapping[str, NDArray[Any]]]:
        """Compute each client's message about its data before its first round; empty if none sends one."""
        message = build_algorithm(self.config).message()
        if message is None:
            return {}
        pool = InProcessPool()
        pool.prepare(self.setup)
        described = pool.describe(range(self.config.clients), message, encoder)
        return {client: description.payload for client, description in enumerate(described)}


def observe_round(
    config: RunConfig,
    before: RunState | None,
    after: RunState,
    data_dir: Path,
    encoder: Encoder | None = None,
) -> ObservedRound:
    """Compute what the server of a run has seen in one of its rounds, between two states.

    Args:
        config: The run's configuration.
        before: The state before the round; None if the round is the first one, or if that state is missing,
            so that nobody can compute what was sent.
        after: The state after it.
        data_dir: Where data sets are.
        encoder: The encoder of its clients' messages, if they need one.

    Raises:
        DataError: the images are missing.
        RunError: a client's training fails.
    """
    setup, truth_K = prepare_setup(config, data_dir)
    federation = Federation.from_config(config, build_algorithm(config), setup, truth_K, encoder=encoder)
    if before is None and after.rounds_done == 1:
        # The state before round 1 is stored nowhere, but follows from the seed.
        before = federation.create_first_state(make_model_source(setup))
    sent = {}
    if federation.algorithm.traits.sends_updates and before is not None:
        sent = _train_again(federation, setup, before)
    labels_K, at = after.state.labels_K, after.rounds_done - 1
    served = query_served_models(federation.algorithm, after.state, federation.layout, config.root_seed, at)
    return ObservedRound(config, setup, federation.layout, labels_K, served.models, served.model_K, sent, at)


def _train_again(federation: Federation, setup: Setup, before: RunState) -> dict[int, SentUpdate]:
    """Train the clients of the round after `before`, and collect the usable updates."""
    pool = InProcessPool()
    pool.prepare(setup)
    plan = plan_round(federation, before, pool)
    tasks = [TrainTask(order, plan.round_index, evaluate=False) for order in plan.reached_orders]
    replies = pool.train(tasks, plan.state.models, before.memories)
    return {
        reply.report.client: SentUpdate(
            plan.state.models[reply.report.chosen], reply.update, reply.report.update_norm
        )
        for reply in replies
        if reply.report.usable
    }
