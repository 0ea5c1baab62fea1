"""What stays the same in every round of a run: its clients, algorithm, settings and who takes part."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fedgrid.algorithms.contract.base import Algorithm, Fresh, Labels, State
from fedgrid.algorithms.contract.checks import BrokenContract, check_served, check_state
from fedgrid.algorithms.contract.local_rule import LocalRule
from fedgrid.algorithms.contract.orders import Adaptation, Served
from fedgrid.algorithms.updates.source import Layout
from fedgrid.engine.federation.clients.messages import ClientData, Moved, Setup
from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import FinalError, find_plugin_file
from fedgrid.engine.federation.models.flat_vectors import build_layout, draw_initial_vector
from fedgrid.engine.federation.plugin_calls import plugin_call_context
from fedgrid.engine.federation.record_names import GROUP
from fedgrid.engine.federation.round.participation import Participation, count_encoder_updates
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.federation.seeds import make_generator, temporary_seeds
from fedgrid.engine.federation.training.settings import Evaluation
from fedgrid.engine.federation.uplink.ledger import Accountant

if TYPE_CHECKING:
    from fedgrid.engine.federation.encoders.encoder import Encoder


@dataclass(frozen=True)
class UnusualClients:
    """The clients of a run that attack, that move to another hidden group, or whose group has a name."""

    moved: Mapping[int, Moved] = field(default_factory=dict)
    """What each mover holds from a later round on, by client."""
    faults: Mapping[int, str] = field(default_factory=dict)
    """How each attacker attacks, by client."""
    groups: Mapping[int, str] = field(default_factory=dict)
    """The name of each client's hidden group, by client; empty where the data set names none."""

    @classmethod
    def from_clients(cls, clients: Sequence[ClientData]) -> "UnusualClients":
        """Collect what is unusual about the clients of a run."""
        return cls(
            {data.client: data.moved for data in clients if data.moved is not None},
            {data.client: data.fault for data in clients if data.fault},
            {data.client: data.group for data in clients if data.group},
        )

    def find_groups(self, truth_K: NDArray[np.int64], round_index: int) -> NDArray[np.int64]:
        """Find the hidden group of each client in a round, shape (K,).

        Args:
            truth_K: The groups at the start, shape (K,).
            round_index: The round, from 0.
        """
        now_K = truth_K.copy()
        for client, moved in self.moved.items():
            if round_index >= moved.round_index:
                now_K[client] = moved.group
        return now_K

    def has_move(self, round_index: int) -> bool:
        """Check whether a client moves to another group in this round, from 0."""
        return any(moved.round_index == round_index for moved in self.moved.values())

    def annotate_rows(self, rows: Sequence[dict[str, Any]], round_index: int) -> None:
        """Add what is unusual about clients to their rows of `clients.parquet`.

        That is the group and the image counts of movers, the faults of attackers, and the names of groups.

        Args:
            rows: The rows of one round, changed in place.
            round_index: That round, from 0.
        """
        for row in rows:
            moved = self.moved.get(row["client"])
            if moved is not None and round_index >= moved.round_index:
                row["true_cluster"] = moved.group
                row["train_images"], row["test_images"] = len(moved.train), len(moved.test)
            if self.faults:
                row["fault"] = self.faults.get(row["client"])
            if self.groups:
                row[GROUP] = self.groups[row["client"]]


@contextmanager
def round_context(number: int, seed: int) -> Iterator[None]:
    """Run the block as part of a round: seed the process's generators, and name round and plugin in errors.

    Code of a plugin may draw from the global generators of Python, NumPy or torch; the seed, derived from the
    run's root seed, makes what it draws repeatable.

    Args:
        number: The round, from 1; 0: before the first.
        seed: The run's root seed.

    Raises:
        FinalError: the algorithm breaks its contract in the block.
    """
    try:
        with temporary_seeds("cpu", make_generator(seed, "own code", round_index=number - 1)):
            yield
    except BrokenContract as error:
        raise FinalError(
            f"round {number}: {find_plugin_file(error.item_type, error.method)}{error}"
        ) from error


def query_served_models(
    algorithm: Algorithm, state: State, layout: Layout, seed: int, round_index: int
) -> Served:
    """Find which models the algorithm serves after a round, and check what it returns.

    Args:
        algorithm: The run's algorithm.
        state: Its state after the round.
        layout: That of a model's vector.
        seed: The run's root seed.
        round_index: The round, from 0.

    Raises:
        BrokenContract: that is no valid `Served`.
    """
    with plugin_call_context(
        algorithm, "served", make_generator(seed, "own served", round_index=round_index)
    ):
        return check_served(algorithm, state, layout)


@dataclass(frozen=True)
class Federation:
    """The clients of a run, their algorithm, and which of them take part in each round.

    All of it follows from the configuration and the data, so nothing of it is stored in a checkpoint.
    """

    algorithm: Algorithm
    layout: Layout
    seed: int
    rounds: int
    """Number of rounds at most."""
    evaluation: Evaluation
    truth_K: Labels
    """Hidden group of each client in round 1, shape (K,); only scores and algorithms that may know it read
    it."""
    participation: Participation
    train_images_K: Sequence[int]
    """Number of training images of each client in round 1."""
    test_images_K: Sequence[int]
    """Number of test images of each client in round 1."""
    columns: frozenset[str] = frozenset()
    """Names of the columns of the records that this run has and not all runs have."""
    numbers: tuple[str, ...] = ()
    """Names of the numbers of each round that the algorithm's entry declares."""
    run_id: str = ""
    threads: int = 1
    """Number of threads of the server's computations."""
    weights: str = "none"
    """`RunConfig.weights`."""
    unusual_clients: UnusualClients = UnusualClients()
    """Attackers, and clients whose data change."""
    accountant: Accountant = Accountant()
    """Prices of what clients send, in privacy; without noise nothing is counted."""
    encoder: "Encoder | None" = None
    """The trained encoder that the algorithm's message needs; None: it needs none."""
    has_own_buffers: bool = False
    """Whether clients keep their buffers (`training.buffers: local`)."""
    stop_after: int | None = None
    """`RunConfig.training.stop_after`."""

    @classmethod
    def from_config(
        cls,
        config: RunConfig,
        algorithm: Algorithm,
        setup: Setup,
        truth_K: Labels,
        *,
        threads: int = 1,
        encoder: "Encoder | None" = None,
        numbers: tuple[str, ...] = (),
    ) -> "Federation":
        """Build the federation of a run from its configuration and its dealt data.

        Args:
            config: The run's configuration.
            algorithm: The algorithm that the configuration names.
            setup: What the clients hold, from `build_setup`.
            truth_K: Hidden group of each client, shape (K,), from `build_setup`.
            threads: Number of threads of the server's computations; 1 by default.
            encoder: The trained encoder of the algorithm's message, if it needs one.
            numbers: Names of the numbers that the algorithm's entry declares.
        """
        participation = Participation.from_config(config, truth_K)
        return cls(
            algorithm=algorithm,
            layout=build_layout(setup.model, setup.inputs, setup.num_classes),
            seed=config.root_seed,
            rounds=config.training.rounds,
            evaluation=config.evaluation,
            truth_K=truth_K,
            participation=participation,
            train_images_K=[len(client.train) for client in setup.clients],
            test_images_K=[len(client.test) for client in setup.clients],
            columns=config.columns(algorithm.traits),
            numbers=numbers,
            run_id=config.run_id,
            threads=threads,
            weights=config.weights,
            unusual_clients=UnusualClients.from_clients(setup.clients),
            accountant=Accountant(
                config.privacy,
                config.uplink,
                config.root_seed,
                algorithm.traits.sends_updates,
                algorithm.message(),
                _count_encoder_updates(algorithm, participation),
            ),
            encoder=encoder,
            has_own_buffers=config.training.buffers == "local",
            stop_after=config.training.stop_after,
        )

    def keep_own_buffers(self, rule: LocalRule) -> LocalRule:
        """Extend a rule so that clients keep BatchNorm's buffers to themselves, where the run says so.

        A run says so by `training.buffers: local`; else the rule is returned as it is.
        """
        end = self.layout.num_parameters
        size = self.layout.size
        if not self.has_own_buffers or end == size:
            return rule
        # Personal ranges must not overlap: those that reach into the buffers are cut there, and one range
        # that covers all buffers follows.
        own = [(start, min(stop, end)) for start, stop in rule.personal if start < end]
        return rule.model_copy(update={"personal": (*own, (end, size))})

    def find_served_models(self, state: State, round_index: int) -> Served:
        """Find which models are served, and so tested, after a round, from 0."""
        served = query_served_models(self.algorithm, state, self.layout, self.seed, round_index)
        return self.add_own_buffers(served)

    def add_own_buffers(self, served: Served) -> Served:
        """Add each client's own buffers to what is served, if clients keep theirs."""
        adaptation = served.adaptation or Adaptation()
        rule = self.keep_own_buffers(adaptation.rule)
        if rule is adaptation.rule:
            return served
        return replace(served, adaptation=replace(adaptation, rule=rule))

    def create_first_state(self, fresh: Fresh) -> RunState:
        """Create the run's state before the first round; `fresh` draws initial models.

        Raises:
            FinalError: the algorithm returns an invalid state.
        """
        with round_context(0, self.seed):
            rng = make_generator(self.seed, "init")
            with plugin_call_context(self.algorithm, "init", make_generator(self.seed, "own init")):
                state = self.algorithm.init(self.layout, len(self.truth_K), fresh, rng)
            # `init` never gets the hidden groups; only algorithms that may know them use them in `reveal`.
            state = self.check_returned_state("init", state)
            return RunState(
                0, self.check_returned_state("reveal", self.algorithm.reveal(state, self.truth_K))
            )

    def check_returned_state(self, method: str, state: State) -> State:
        """Check the state that a method of the algorithm has returned, and make its arrays read-only.

        Args:
            method: Name of the method, for the message.
            state: What it returned.

        Raises:
            BrokenContract: shapes, types or values are not those of a state.
        """
        return check_state(self.algorithm, method, state, self.layout.size, len(self.truth_K))

    def is_over(self, run_state: RunState) -> bool:
        """Check whether a run has no further round.

        It has none once all are done, or once its validation score no longer improves
        (`training.stop_after`).
        """
        done = run_state.rounds_done
        best = run_state.best
        # A round without tests has no score, so it cannot end the run early.
        if self.stop_after is None or best is None or not self.has_tests(done - 1):
            return done == self.rounds
        return done == self.rounds or done - best[0] >= self.stop_after

    def has_tests(self, round_index: int) -> bool:
        """Check whether models are tested in a round, from 0; the last round always tests."""
        return (round_index + 1) % self.evaluation.every == 0 or round_index + 1 == self.rounds

    def tests_on_server(self, round_index: int) -> bool:
        """Check whether local models are tested on the server's set too, in a round that counts from 0."""
        setting = self.evaluation.local_server
        return self.has_tests(round_index) and (
            round_index + 1 == self.rounds if setting == "last" else setting
        )


def make_model_source(setup: Setup) -> Fresh:
    """Make the function that draws the initial models of a run: number -> vector, shape (P,)."""
    return lambda number: draw_initial_vector(
        setup.model, setup.inputs, setup.num_classes, setup.seed, number
    )


def _count_encoder_updates(algorithm: Algorithm, participation: Participation) -> Mapping[int, int]:
    """Count the encoder updates that each client sends before round 1; empty without a federated encoder."""
    message = algorithm.message()
    if message is None or message.encoder is None:
        return {}
    return count_encoder_updates(
        message.encoder, participation.seed, participation.draw_attendance(0).present
    )
