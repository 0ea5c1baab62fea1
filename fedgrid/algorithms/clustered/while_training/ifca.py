"""IFCA: K models; in every round each client trains the one that fits its data best.

Source: Ghosh, Chung, Yin, Ramchandran, An Efficient Framework for Clustered Federated Learning, NeurIPS 2020,
arXiv:2006.04088, Algorithm 1, model averaging, and section 6 (shared lower layers, choice on a batch, random
restarts). Deviations: ties are broken at random; a client that was not sampled in a round is tested with the
model that it would choose then, on what it trains on, not on its test images; a redrawn model is the drawn
one with the entries of each tensor shuffled, and every attempt costs the round in which it was made.

Shapes: K clients of the federation, C models, P entries of a state vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedgrid.algorithms.averaging.shared_layers import SharedLayers, SharedLayersSettings, copy_shared_entries
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, State, StepResult, Traits
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_method import find_payload_refusal
from fedgrid.algorithms.contract.orders import BYTES_PER_ENTRY, ChooseOn, Order, Presence, Served, Traffic
from fedgrid.algorithms.contract.section import Condition, PositiveInt
from fedgrid.algorithms.updates.source import Layout, Rng, Vector
from fedgrid.algorithms.updates.updates import Updates

BIBTEX = r"""@inproceedings{ghosh2020efficient,
  author = {Ghosh, Avishek and Chung, Jichan and Yin, Dong and Ramchandran, Kannan},
  title = {An Efficient Framework for Clustered Federated Learning},
  booktitle = {Advances in Neural Information Processing Systems (NeurIPS)},
  year = {2020},
  eprint = {2006.04088},
  archiveprefix = {arXiv}
}"""

NEVER = -1
"""Choice of a client that has never chosen."""


class IfcaSettings(SharedLayersSettings):
    """Settings of IFCA: how many models there are, how they start, and how clients choose."""

    num_clusters: PositiveInt = 3
    """K in the paper: the number of models. FLIS's comparison has 2."""
    choose_on: ChooseOn = "train"
    """Images whose loss decides which model a client chooses. With `test` it has seen what it is scored on;
    with `reference` all clients choose the same model, because all see the same losses."""
    start: Literal["deal", "fresh", "rejection"] = "fresh"
    """Start of the models, which are drawn independently in each case. `fresh`: clients choose from round 1
    on. `deal`: in round 1 models are dealt out at random. `rejection`: as fresh, but all are drawn again
    while too few choose one of them."""
    least_share: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Share of the clients that trained which must choose each model, with `rejection`."""
    redraws: Annotated[int, Field(ge=0)] = 10
    """Number of times that the models are drawn again at most, with `rejection`; each costs a round."""

    acts_with: ClassVar[Mapping[str, Condition]] = dict.fromkeys(
        ("least_share", "redraws"), Condition(lambda given: given.start == "rejection", "start rejection")
    )


class Ifca(SharedLayers):
    """FedOpt in clusters that the clients choose.

    A client is tested with the model that it trained in the round; one that was not sampled chooses among the
    new models, which need not be its label. The authors' test machines choose on their own test data. Prigent
    et al. have `{name: ifca, start: deal, choose_on: batch, shared: 2}` with `weights: batches`.

    Which models clients start from decides where it ends. With more than two groups take more models than you
    expect groups, or `start: rejection` and some more rounds.

    Sends: A sampled client gets all models, of which shared layers are sent once, and returns one update. It
    passes over its training images once for each model to choose.

    Degenerate cases:

    - With one model it is BNC, to the byte. More models than clients are refused.
    - A model that no client chose keeps its weights. If all choose one model, a warning says so.
    - Ties are broken at random, seeded.

    Absent clients: A client that is away keeps its last choice as its cluster, and is tested with what it
    would choose. One that has never chosen is labelled with the largest cluster.

    Memory: `choice_K` (int64), each client's last choice, -1 before the first; `chose_K` (bool), whether that
    was in the last round; `redraws` (int64, shape (1,)), how often the models may still be drawn again.
    """

    settings: IfcaSettings

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm; records say how many clients chose each model."""
        return replace(super().traits, columns=frozenset({"counts"}))

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse more models than clients, and a choice on images that are not there."""
        if problem := conditions.too_few_for(self.settings.num_clusters):
            return problem
        if self.settings.choose_on == "reference" and not conditions.has_reference_images:
            return "choose_on reference needs images that the server has: set split.reference_images"
        return find_payload_refusal(self.settings.local) or super().problem(conditions)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build the state of C independent models that no client has chosen yet."""
        state = super().init(layout, num_clients, fresh, rng)
        count = self.settings.num_clusters
        # Shared layers must be equal from the start: they are averaged as one.
        models = copy_shared_entries(
            self.find_shared_entries(layout), [fresh(number) for number in range(count)]
        )
        moments = {name: np.repeat(array, count, axis=0) for name, array in state.arrays.items()}
        redraws = self.settings.redraws if self.settings.start == "rejection" else 0
        return State(tuple(models), state.labels_K, moments).keep(
            choice_K=np.full(num_clients, NEVER),
            chose_K=np.zeros(num_clients, bool),
            redraws=np.array([redraws]),
        )

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: Rng
    ) -> Sequence[Order]:
        """Send each sampled client all models, in an order of its own: ties go to the first.

        Args:
            state: the state so far.
            round_index: the round, from 0; with `start: deal` the first one deals the models out.
            present: the clients that were sampled.
            layout: names and shapes of the tensors in a state vector.
            rng: draws the orders, and deals.
        """
        count = len(state.models)
        rule = self.rule(layout)
        if self.settings.start == "deal" and round_index == 0:
            # A permutation modulo the number of models: numbers of clients differ by one at most.
            dealt = rng.permutation(len(present.sampled)) % count
            return [
                Order(client, (int(place),), rule=rule)
                for client, place in zip(present.sampled, dealt, strict=True)
            ]
        return [
            Order(client, tuple(rng.permutation(count).tolist()), self.settings.choose_on, rule=rule)
            for client in present.sampled
        ]

    def traffic(self, order: Order, layout: Layout) -> Traffic:
        """Count the bytes of an order: what the models share is sent once."""
        num_shared = int(self.find_shared_entries(layout).sum())
        repeated = BYTES_PER_ENTRY * num_shared * (len(order.candidates) - 1)
        traffic = super().traffic(order, layout)
        return replace(traffic, down=traffic.down - repeated)

    def step(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Store which client chose which model and average; or draw other models, if too few chose one."""
        chosen = [updates.chosen[client] for client in updates.clients]
        counts = np.bincount(chosen, minlength=len(state.models))
        left = int(state.arrays["redraws"][0])
        if not left:
            return super().step(state, round_index, updates, rng)
        # An attempt costs its round: clients have trained models that are thrown away now.
        if counts.min() < self.settings.least_share * counts.sum():
            warning = (
                f"models chosen by {_format_counts(counts)} clients: drawn again, {left - 1} redraws left"
            )
            state = replace(state, models=self._shuffle_models(state, updates.layout, rng))
            state = state.keep(redraws=np.array([left - 1]))
            return state, Diagnostics(counts=tuple(counts.tolist()), warnings=(warning,))
        return super().step(state.keep(redraws=np.array([0])), round_index, updates, rng)

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Put each client into the cluster that it chose last.

        One that has never chosen is labelled with the cluster that most have chosen; ties go to the first.

        Args:
            state: the state so far.
            round_index: the round, from 0; not used.
            updates: the usable updates of this round, with the choices.
            rng: not used.
        """
        count = len(state.models)
        before_K = state.arrays["choice_K"]
        choice_K = before_K.copy()
        chose_K = np.zeros(len(before_K), bool)
        for client in updates.clients:
            choice_K[client] = updates.chosen[client]
            chose_K[client] = True
        counts = np.bincount(choice_K[chose_K], minlength=count)
        largest = int(np.bincount(choice_K[choice_K != NEVER]).argmax())
        labels_K = np.where(choice_K == NEVER, largest, choice_K)
        # Warn once: if all had chosen one model before, the log has it already.
        was_apart = len(set(before_K[before_K != NEVER].tolist())) != 1
        warnings = (
            (
                f"all {counts.sum()} clients chose one model of {count}: {_format_counts(counts)}; one "
                "model for all",
            )
            if count > 1 and counts.sum() > 1 and counts.max() == counts.sum() and was_apart
            else ()
        )
        state = replace(state, labels_K=labels_K).keep(choice_K=choice_K, chose_K=chose_K)
        return state, Diagnostics(clustered=True, counts=tuple(counts.tolist()), warnings=warnings)

    def served(self, state: State, layout: Layout) -> Served:
        """Test a client with the model that it has trained; one that was not sampled chooses again."""
        choosing = np.flatnonzero(~state.arrays["chose_K"])
        return Served(
            state.models,
            state.labels_K,
            self.fine_tuning(state, layout),
            choosing=frozenset(choosing.tolist()),
            choose_on=self.settings.choose_on,
        )

    def _shuffle_models(self, state: State, layout: Layout, rng: Rng) -> tuple[Vector, ...]:
        """Shuffle the entries of each model's tensors: those of a tensor are drawn alike."""
        models = [model.copy() for model in state.models]
        for model in models:
            # There is no `fresh` in a round. Shuffled entries have the initialiser's distribution, as those
            # of a tensor are drawn alike; shuffling several models gives independent ones.
            for _, where, _ in layout.slices():
                model[where] = rng.permutation(model[where])
        return tuple(copy_shared_entries(self.find_shared_entries(layout), models))


def _format_counts(counts: NDArray[np.int64]) -> str:
    """Format counts for a message."""
    return ", ".join(map(str, counts))
