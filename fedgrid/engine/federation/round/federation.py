"""What stays the same in every round of a run."""

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
from fedgrid.engine.federation.errors import FinalError, plugin_of
from fedgrid.engine.federation.models.flat_vectors import initial_vector, layout
from fedgrid.engine.federation.own_code import own_code
from fedgrid.engine.federation.record_names import GROUP
from fedgrid.engine.federation.round.participation import Participation, updates_sent
from fedgrid.engine.federation.round.run_state import RunState
from fedgrid.engine.federation.seeds import generator, seeded
from fedgrid.engine.federation.training.settings import Evaluation
from fedgrid.engine.federation.uplink.ledger import Accountant

if TYPE_CHECKING:
    from fedgrid.engine.federation.encoders.encoder import Encoder


@dataclass(frozen=True)
class Changes:
    """The clients of a run that are not as ordinary ones are."""

    moved: Mapping[int, Moved] = field(default_factory=dict)
    faults: Mapping[int, str] = field(default_factory=dict)
    groups: Mapping[int, str] = field(default_factory=dict)
    """What the data set calls their hidden groups, where it has any."""

    @classmethod
    def of(cls, clients: Sequence[ClientData]) -> "Changes":
        """Return those among the clients of a run."""
        return cls(
            {data.client: data.moved for data in clients if data.moved is not None},
            {data.client: data.fault for data in clients if data.fault},
            {data.client: data.group for data in clients if data.group},
        )

    def truth(self, truth_K: NDArray[np.int64], round_index: int) -> NDArray[np.int64]:
        """Return the hidden groups in a round, shape (K,); `truth_K` are those of the start."""
        now_K = truth_K.copy()
        for client, moved in self.moved.items():
            if round_index >= moved.round_index:
                now_K[client] = moved.group
        return now_K

    def begins(self, round_index: int) -> bool:
        """Return whether a client moves in this round."""
        return any(moved.round_index == round_index for moved in self.moved.values())

    def note(self, rows: Sequence[dict[str, Any]], round_index: int) -> None:
        """Put into the rows of `clients.parquet` of a round what moved clients hold now, who attacks, and the
        names of groups."""
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
def in_round(number: int, seed: int) -> Iterator[None]:
    """Name the round, 0 before the first, and the plugin that the algorithm is of.

    The generators of the process are seeded, for what has none of its own, from the run's root seed.
    """
    try:
        with seeded("cpu", generator(seed, "own code", round_index=number - 1)):
            yield
    except BrokenContract as error:
        raise FinalError(f"round {number}: {plugin_of(error.of, error.method)}{error}") from error


def served_after(algorithm: Algorithm, state: State, size: int, seed: int, round_index: int) -> Served:
    """Return which models, of `size` entries, are tested after a round, from 0; `seed` is the root seed."""
    with own_code(algorithm, "served", generator(seed, "own served", round_index=round_index)):
        return check_served(algorithm, state, size)


@dataclass(frozen=True)
class Federation:
    """The clients of a run, their algorithm, and which of them take part in each round."""

    algorithm: Algorithm
    layout: Layout
    seed: int
    rounds: int
    """At most."""
    evaluation: Evaluation
    truth_K: Labels
    """The hidden groups in round 1."""
    participation: Participation
    train_images_K: Sequence[int]
    """In round 1, as the next."""
    test_images_K: Sequence[int]
    columns: frozenset[str] = frozenset()
    """Of the records, those that not all runs have."""
    numbers: tuple[str, ...] = ()
    """Those of each round that the algorithm's entry declares."""
    run_id: str = ""
    threads: int = 1
    weights: str = "none"
    """`RunConfig.weights`."""
    changes: Changes = Changes()
    """Attackers, and clients whose data change."""
    accountant: Accountant = Accountant()
    """Of privacy; without noise nothing is counted."""
    encoder: "Encoder | None" = None
    """What the algorithm's message asks for."""
    has_own_buffers: bool = False
    """Whether clients keep their buffers (`training.buffers: local`)."""
    stop_after: int | None = None
    """`RunConfig.training.stop_after`."""

    @classmethod
    def of(
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
        """Return the federation of a run; `setup` and `truth_K` are what `setup_of` returns."""
        participation = Participation.of(config, truth_K)
        return cls(
            algorithm=algorithm,
            layout=layout(setup.model, setup.inputs, setup.num_classes),
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
            changes=Changes.of(setup.clients),
            accountant=Accountant(
                config.privacy,
                config.uplink,
                config.root_seed,
                algorithm.traits.sends_updates,
                algorithm.message(),
                _encoder_updates(algorithm, participation),
            ),
            encoder=encoder,
            has_own_buffers=config.training.buffers == "local",
            stop_after=config.training.stop_after,
        )

    def keep_buffers(self, rule: LocalRule) -> LocalRule:
        """Return the rule under which clients keep their buffers too, if they do in this run."""
        end = self.layout.num_parameters
        size = self.layout.size
        if not self.has_own_buffers or end == size:
            return rule
        # A rule that keeps a layer keeps its buffers.
        own = [(start, min(stop, end)) for start, stop in rule.personal if start < end]
        return rule.model_copy(update={"personal": (*own, (end, size))})

    def served_after(self, state: State, round_index: int) -> Served:
        """Return what is tested after a round, from 0."""
        served = served_after(self.algorithm, state, self.layout.size, self.seed, round_index)
        return self.served(served)

    def served(self, served: Served) -> Served:
        """Return what is tested: with each client's own buffers, if they keep them."""
        adaptation = served.adaptation or Adaptation()
        rule = self.keep_buffers(adaptation.rule)
        if rule is adaptation.rule:
            return served
        return replace(served, adaptation=replace(adaptation, rule=rule))

    def begin(self, fresh: Fresh) -> RunState:
        """Return the run's state before the first round; `fresh` draws initial models."""
        with in_round(0, self.seed):
            rng = generator(self.seed, "init")
            with own_code(self.algorithm, "init", generator(self.seed, "own init")):
                state = self.algorithm.init(self.layout, len(self.truth_K), fresh, rng)
            state = self.checked("init", state)
            return RunState(0, self.checked("reveal", self.algorithm.reveal(state, self.truth_K)))

    def checked(self, method: str, state: State) -> State:
        """Return the state that a method of the algorithm has returned, checked and read-only."""
        return check_state(self.algorithm, method, state, self.layout.size, len(self.truth_K))

    def is_over(self, run_state: RunState) -> bool:
        """Return whether a run has no further round."""
        done = run_state.rounds_done
        best = run_state.best
        if self.stop_after is None or best is None or not self.evaluates(done - 1):
            return done == self.rounds
        return done == self.rounds or done - best[0] >= self.stop_after

    def evaluates(self, round_index: int) -> bool:
        """Return whether models are tested in a round, which counts from 0."""
        return (round_index + 1) % self.evaluation.every == 0 or round_index + 1 == self.rounds

    def tests_on_server(self, round_index: int) -> bool:
        """Return whether local models are tested on the server's set too, in a round that counts from 0."""
        asked = self.evaluation.local_server
        return self.evaluates(round_index) and (round_index + 1 == self.rounds if asked == "last" else asked)


def fresh_models(setup: Setup) -> Fresh:
    """Return what draws the initial models of a run."""
    return lambda number: initial_vector(setup.model, setup.inputs, setup.num_classes, setup.seed, number)


def _encoder_updates(algorithm: Algorithm, participation: Participation) -> Mapping[int, int]:
    message = algorithm.message()
    if message is None or message.encoder is None:
        return {}
    return updates_sent(message.encoder, participation.seed, participation.attendance(0).present)
