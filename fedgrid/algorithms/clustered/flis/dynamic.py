"""FLIS-DC: a cluster around each participant, formed again in every round; clusters may overlap.

Source: Morafah et al. 2022, arXiv:2208.09754, Algorithm 1. Participant i's cluster C_i is i and all j with
A_ij >= beta; its model is the mean of the models of C_i. In the next round each sampled client takes the best
of these models. Deviations: by default it chooses by its loss on its training images (`choose_on`), because
the paper's choice, on test images, has seen what is reported; equal clusters are one model, which is sent
once; means have the weights of the run, which is `images` in the paper.

Shapes: K clients of the federation, N that took part, M reference images, P entries of a state vector.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedgrid.algorithms.averaging.fedopt import FineTuningSteps
from fedgrid.algorithms.clustered.flis import inference
from fedgrid.algorithms.contract.aggregator import MEAN, Aggregator, AnyAggregator
from fedgrid.algorithms.contract.base import (
    Algorithm,
    Diagnostics,
    Fresh,
    Labels,
    Settings,
    State,
    StepResult,
    Traits,
)
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_method import AnyLocalMethod, find_refusal
from fedgrid.algorithms.contract.local_rule import PLAIN
from fedgrid.algorithms.contract.orders import Adaptation, ChooseBy, ChooseOn, Order, Presence, Served
from fedgrid.algorithms.updates.products import compute_mean
from fedgrid.algorithms.updates.source import Layout, Matrix, Rng, Vector
from fedgrid.algorithms.updates.updates import Updates

NO_MODEL = -1
"""Position of the model of a client that did not take part in the last round."""


class FlisDcSettings(Settings):
    """Settings of FLIS-DC: how models are compared, joined and chosen."""

    beta: inference.Threshold = 0.5
    """Models at least so similar are in one cluster. 0: one cluster, FedAvg; above 1: one a participant. The
    paper searches 0 to 1; 0.3 is its best on CIFAR-10 and SVHN, 0.5 on Fashion-MNIST."""
    always_joined: inference.Threshold | None = None
    """A similarity from which two models are joined whatever beta is; 0.96 as published."""
    labels: inference.LabelKind = "hard"
    """Whether predicted classes are compared, or probabilities."""
    similarity: inference.SimilarityKind = "agreement"
    """`agreement`: the cosine of the predictions. `printed`: the formula as the paper prints it."""
    choose_on: ChooseOn = "train"
    """Images on which a client chooses its cluster's model. `test` as published: it sees what is reported. On
    `reference` images all clients choose the same model, because all see the same losses."""
    choose_by: ChooseBy = "loss"
    """Whether a client takes the model of the least loss, or of the highest accuracy, as published."""
    local: AnyLocalMethod = None
    """Local method, by which clients train, for example `{name: fedprox, mu: 0.01}`; None: plain training."""
    fine_tune: FineTuningSteps = 0
    """Steps that a client takes from the model that it is served before a test, as in `FedOptSettings`."""

    aggregate: AnyAggregator = MEAN
    """Aggregator of the models of a cluster's participants, as in `FedOptSettings`."""

    omitted_defaults = ("local", "fine_tune", "aggregate")


class FlisDc(Algorithm):
    """Overlapping clusters, one around each participant of a round, each with a model.

    The connected components of "similar" are scored as the partition; `members` of `clients.parquet` has each
    participant's cluster. The paper scores clients' last local models: the last `local_own_accuracy` of each.

    Sends: A sampled client gets all different cluster models of the round before, and returns one update.
    Predicting costs the server a pass over its reference images a model, and no bytes.

    Degenerate cases:

    - `beta: 0` is BNC, to the byte; above 1 every participant has a model of its own.
    - Models that predict one class for everything are alike, whatever their data.
    - Without `split.reference_images` it is refused.

    Absent clients: Clusters are of those that arrive. One that is away is tested with the model that it would
    choose, and is labelled as the participant whose predictions agree most with its own latest ones.

    As published: Clients choose by accuracy on their test images, which are then reported. Pairs that agree
    on 96 % of the images are joined whatever `beta` is, so that `beta` above 0.96 does nothing. The authors'
    reference images are also in the clients' tests; ours never are.

    Memory: `model_K` (int64), the cluster model of each client that took part in the last round, -1 for the
    others; `classes_KM` (int16), each client's latest predictions, -1 before its first.
    """

    settings: FlisDcSettings

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm.

        A client's model is one that the server sent plus its update, so means are of updates. Records have
        each participant's cluster.
        """
        return Traits(
            averages_updates=self.settings.aggregate.is_mean,
            trains_plainly=self.settings.local is None or self.settings.local.rule() == PLAIN,
            by_class=True,
            columns=frozenset({"members"}),
        )

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse a run without reference images, a `local` beyond a rule, and an aggregator of updates."""
        if not conditions.has_reference_images:
            return inference.NEEDS_REFERENCES
        return find_refusal(self.settings.local, self.settings.aggregate)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build the state of one model for all."""
        zeros_K = np.zeros(num_clients, np.int64)
        return State((fresh(0),), zeros_K, {"model_K": zeros_K})

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: Rng
    ) -> Sequence[Order]:
        """Send each sampled client all cluster models of the round before; infer on the replies."""
        on = self.settings.choose_on
        by = self.settings.choose_by
        candidates = tuple(range(len(state.models)))
        rule = PLAIN if self.settings.local is None else self.settings.local.rule()
        return [Order(client, candidates, on, by, infer=True, rule=rule) for client in present.sampled]

    def step(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Build a cluster around each participant, and average the participants' models within it.

        Args:
            state: the state so far.
            round_index: the round, from 0; not used.
            updates: the usable updates of this round, with choices and predictions.
            rng: for an aggregator that draws.
        """
        similarities_NN, classes_NM = self._infer_similarities(updates)
        always = self.settings.always_joined
        threshold = self.settings.beta if always is None else min(self.settings.beta, always)
        # Similarities of pairs that are joined anyway count as above the threshold: the lower of the two
        # decides.
        joined_NN = inference.find_neighbours(similarities_NN, threshold)
        groups, owner_N = inference.find_distinct_groups(joined_NN, updates.clients)
        participants = list(updates.clients)
        model_K = np.full(len(state.labels_K), NO_MODEL, np.int64)
        model_K[participants] = owner_N
        classes_KM = inference.replace_classes(state, participants, classes_NM)
        labels_K = _label_all_clients(classes_KM, participants, inference.find_components(joined_NN))
        aggregate = self.settings.aggregate.seed_round(rng)
        models = average_local_models(state.models, updates, groups, aggregate)
        members = {client: tuple(groups[owner]) for client, owner in zip(participants, owner_N, strict=True)}
        state = replace(state, models=tuple(models), labels_K=labels_K)
        state = state.keep(model_K=model_K).keep(**{inference.CLASSES: classes_KM})
        return state, Diagnostics(clustered=True, members=members)

    def served(self, state: State, layout: Layout) -> Served:
        """Test participants with their cluster's model, the others with the one that they would choose."""
        model_K = state.arrays["model_K"]
        choosing = frozenset(np.flatnonzero(model_K == NO_MODEL).tolist())
        on = self.settings.choose_on
        by = self.settings.choose_by
        steps = self.settings.fine_tune
        adaptation = Adaptation(steps=steps) if steps else None
        # `maximum`: a client without a model chooses, so its position is not used, but has to be valid.
        return Served(state.models, np.maximum(model_K, 0), adaptation, choosing, on, by)

    def distances(self, updates: Updates) -> Matrix:
        """Compute 1 - similarity, 0 of a model to itself whatever the printed formula says."""
        distances_NN = 1 - self._infer_similarities(updates)[0]
        np.fill_diagonal(distances_NN, 0.0)
        return distances_NN

    def _infer_similarities(self, updates: Updates) -> tuple[Matrix, inference.Classes]:
        """Compute similarities and predicted classes as the settings say."""
        return inference.infer_similarities(updates, self.settings.labels, self.settings.similarity)


def average_local_models(
    models: Sequence[Vector], updates: Updates, groups: Sequence[Sequence[int]], aggregate: Aggregator = MEAN
) -> list[Vector]:
    """Average the local models of each group of clients, or take their `aggregate`, by the run's weights.

    A local model is the one that the client chose plus its update. The two are averaged separately, so that
    means of updates come from the round cache.

    Args:
        models: the models that were sent.
        updates: the updates, with the clients' choices.
        groups: client ids of each cluster.
        aggregate: the aggregator; any but the mean reads all updates.
    """
    # Only the mean commutes with the sum of start and update.
    if not aggregate.is_mean:
        updates_of = dict(zip(updates.clients, updates.vectors(), strict=True))
        local = {client: models[updates.chosen[client]] + updates_of[client] for client in updates.clients}
        view = Updates(
            local, updates.layout, similarity_over=updates.similarity_over, weights=updates.weights
        )
        return aggregate.combine_groups(view, groups)
    starts = [_average_start_models(models, updates, group) for group in groups]
    return [start_P + mean_P for start_P, mean_P in zip(starts, updates.means(groups), strict=True)]


def _average_start_models(models: Sequence[Vector], updates: Updates, group: Sequence[int]) -> Vector:
    """Average the models that the clients of a group started from; a single one stays as it is."""
    shares: dict[int, float] = {}
    for client in group:
        weight = 1.0 if updates.weights is None else updates.weights[client]
        shares[updates.chosen[client]] = shares.get(updates.chosen[client], 0.0) + weight
    # No arithmetic on a single model, so that equal starts have equal bits.
    if len(shares) == 1:
        return models[next(iter(shares))]
    return compute_mean([models[chosen] for chosen in shares], tuple(shares.values())).astype(np.float32)


def _label_all_clients(
    classes_KM: inference.Classes, participants: Sequence[int], labels_N: Labels
) -> Labels:
    """Label all clients for the partition that is scored: a participant is in its connected component.

    Another client is labelled as the participant whose predictions agree most with its own latest ones, or,
    if it has never taken part, with the largest component; ties go to the first.
    """
    labels_K = np.full(len(classes_KM), np.bincount(labels_N).argmax(), np.int64)
    seen = np.flatnonzero(classes_KM[:, 0] != inference.UNKNOWN)
    labels_K[seen] = labels_N[
        inference.compute_agreements(classes_KM[seen], classes_KM[participants]).argmax(axis=1)
    ]
    labels_K[participants] = labels_N
    return labels_K
