"""FLIS-HC: disjoint clusters, formed once, from the predictions of models that all clients have trained.

Source: Morafah et al. 2022, arXiv:2208.09754, Algorithm 3. In round 1 every client that has joined trains the
initial model; the server clusters the clients by 1 - similarity of their models' predictions. All clusters
start from the initial model and train apart, each round with the clients that are sampled: of round 1's
updates only theirs are averaged. The paper names no linkage and no threshold. `ward5` is what a routine that
is commented out in the released code does, `neighbours` what that code runs:
`clustered.flis.neighbour_lists`.

A client that has not been seen yet *waits*: it is in a cluster by itself with the others that wait, trains
the initial model once, and joins the cluster whose members' predictions agree most with its own on average.
That update enters no mean, because its cluster has left the initial model behind. (The paper has no
newcomers.)

Shapes: K clients of the federation, N that took part, C clusters, M reference images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings, build_server_conditions
from fedgrid.algorithms.clustered.flis import inference, neighbour_lists
from fedgrid.algorithms.clustering.clusterers import cut_agglomerative, group_by_labels
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, Labels, State, StepResult, Traits
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_method import find_refusal
from fedgrid.algorithms.contract.orders import Order, Presence, Served
from fedgrid.algorithms.contract.section import Condition
from fedgrid.algorithms.updates.source import Layout, Matrix, Rng
from fedgrid.algorithms.updates.updates import Updates

WARD_CLUSTERS = 5
"""Number of clusters in the routine that is commented out in the released code."""
CLUSTER_VARIANTS = "variant text or ward5"
"""The variants with clusters, as messages name them."""


def _has_clusters(given: Any) -> bool:
    """Check whether the variant forms clusters."""
    return bool(given.variant != "neighbours")


class FlisHcSettings(FedOptSettings):
    """Settings of FLIS-HC: how the clusters are formed; the server's settings are those of FedOpt."""

    variant: Literal["text", "ward5", "neighbours"] = "text"
    """`text`: agglomerative clustering of 1 - similarity. `ward5`: Ward's clustering of the rows of
    similarities into 5. `neighbours`: no clusters; a client trains the mean of the latest models of all
    clients that agree with it on 96 % of the images, as published."""
    threshold: inference.Threshold = 0.5
    """Height of the cut of `text`: clusters merge while their distance, 1 - similarity, is below this. 0: a
    cluster for each client; above 1: one cluster, FedAvg."""
    linkage: Literal["average", "complete", "single"] = "average"
    """Distance of two clusters of `text`, from those of their clients."""
    labels: inference.LabelKind = "hard"
    """Whether predicted classes are compared, or probabilities."""
    similarity: inference.SimilarityKind = "agreement"
    """`agreement`: the cosine of the predictions. `printed`: the formula as the paper prints it."""

    acts_with: ClassVar[Mapping[str, Condition]] = {
        **build_server_conditions(_has_clusters, CLUSTER_VARIANTS),
        **dict.fromkeys(("labels", "similarity"), Condition(_has_clusters, CLUSTER_VARIANTS)),
        **dict.fromkeys(
            ("threshold", "linkage"), Condition(lambda given: given.variant == "text", "variant text")
        ),
    }


class FlisHc(FedOpt):
    """FedOpt in clusters that are formed in round 1.

    Sends: As FedAvg; in round 1 to and from all clients that have joined.

    Degenerate cases:

    - `threshold: 0` gives a cluster a client; 2 gives one for all, which with full participation is BNC.
    - It rests on a single training: after a few local epochs the models of like clients agree on a third of
      the images at most, and nothing is found.
    - Models that predict one class for everything are alike, whatever their data.
    - `ward5` finds five clusters also where all models predict the same.
    - Without `split.reference_images` it is refused.

    Absent clients: A client that was not there in round 1 trains the initial model once and joins the cluster
    whose members' predictions agree most with its own on average. That update enters no mean.

    As published: `variant: neighbours`. A client starts from the mean of the latest models of all clients
    that agree with it on 96 % of the images. That is neither disjoint nor transitive, and a neighbour that
    has not been sampled holds every mean back with the initial model. It keeps a model a client.

    Memory: `classes_KM` (int16), each client's predictions after its first training, -1 before. While clients
    wait, the last model is the initial one.
    """

    settings: FlisHcSettings

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm.

        Where clients have neighbours instead of clusters, these are recorded, and models are averaged.
        """
        has_neighbours = self.settings.variant == "neighbours"
        traits = super().traits
        columns = frozenset({"members"} if has_neighbours else ())
        averages_updates = traits.averages_updates and not has_neighbours
        return replace(traits, averages_updates=averages_updates, by_class=True, columns=columns)

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse a run without reference images; variant `neighbours` averages models, not updates."""
        if not conditions.has_reference_images:
            return inference.NEEDS_REFERENCES
        averages_models = self.settings.variant == "neighbours"
        if averages_models and conditions.has_held_out:
            return (
                "variant neighbours cannot serve held-out clients: leave out held_out, or set variant: text"
            )
        return find_refusal(
            self.settings.local, self.settings.aggregate, averages_models=averages_models
        ) or super().problem(conditions)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build FedOpt's state; without the optimizer's moments where there are no clusters."""
        if self.settings.variant == "neighbours":
            return State((fresh(0),), np.zeros(num_clients, np.int64))
        return super().init(layout, num_clients, fresh, rng)

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: Rng
    ) -> Sequence[Order]:
        """Send orders to all clients until there are clusters, then to those sampled.

        The server predicts with the models of clients that are in no cluster yet.

        Args:
            state: the state so far.
            round_index: the round, from 0; not used.
            present: the clients that have joined, and those that were sampled.
            layout: names and shapes of the tensors in a state vector.
            rng: not used.
        """
        start_K = neighbour_lists.read_starts(state)
        waiting = set(_find_waiting(state).tolist())
        # The clustering compares all clients that have joined, whatever `participation` is.
        receivers = present.sampled if inference.CLASSES in state.arrays else present.joined
        rule = self.rule(layout)
        return [
            Order(client, (int(start_K[client]),), infer=client in waiting, rule=rule) for client in receivers
        ]

    def place(self, state: State, updates: Updates) -> State:
        """Let the client join the cluster whose members' predictions agree most with its own."""
        return self._place_waiting(state, updates)[0] if inference.CLASSES in state.arrays else state

    def served(self, state: State, layout: Layout) -> Served:
        """Test each client with its cluster's model, or with the mean of its neighbours' models."""
        if self.settings.variant == "neighbours":
            return Served(state.models, neighbour_lists.read_starts(state), self.fine_tuning(state, layout))
        return super().served(state, layout)

    def step(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Form the clusters, or place those that have waited; then average within each cluster.

        Args:
            state: the state so far.
            round_index: the round, from 0.
            updates: the usable updates of this round.
            rng: passed to the aggregator.
        """
        if self.settings.variant == "neighbours":
            aggregate = self.settings.aggregate.seed_round(rng)
            return neighbour_lists.average_neighbours(state, updates, aggregate)
        if inference.CLASSES not in state.arrays:
            state = self._form_clusters(state, updates)
            # All joined clients trained in round 1, but only those sampled are averaged: the others trained
            # for the clustering alone.
            updates = updates.select(updates.sampled)
            diagnostics = Diagnostics(clustered=True)
        else:
            state, updates, placed = self._place_waiting(state, updates)
            diagnostics = Diagnostics(clustered=bool(placed), placed=placed)
        # Nothing is left to average if all who replied had waited.
        return self.aggregate(state, updates, rng) if updates.clients else state, diagnostics

    def cut_tree(self, similarities_NN: Matrix) -> Labels:
        """Label the clusters of models by their similarities, shape (N,)."""
        if self.settings.variant == "text":
            distances_NN = 1 - similarities_NN
            # The printed formula is below 1 for a model with itself.
            np.fill_diagonal(distances_NN, 0.0)
            return cut_agglomerative(distances_NN, self.settings.linkage, self.settings.threshold)
        from sklearn.cluster import AgglomerativeClustering

        # scikit-learn refuses more clusters than samples.
        if len(similarities_NN) <= WARD_CLUSTERS:
            return np.arange(len(similarities_NN))
        method = AgglomerativeClustering(WARD_CLUSTERS, linkage="ward").fit(similarities_NN)
        return np.asarray(method.labels_, np.int64)

    def _form_clusters(self, state: State, updates: Updates) -> State:
        """Form the clusters of the clients that have sent an update; the others wait."""
        similarities_NN, classes_NM = inference.infer_similarities(
            updates, self.settings.labels, self.settings.similarity
        )
        groups = group_by_labels(self.cut_tree(similarities_NN), 1 - similarities_NN, "residual")
        labels_K = np.full(len(state.labels_K), len(groups), np.int64)
        for label, group in enumerate(groups):
            labels_K[[updates.clients[place] for place in group]] = label
        # All clusters start from the initial model; one more for those that wait, if there are any.
        rows = [0] * (len(groups) + bool((labels_K == len(groups)).any()))
        classes_KM = inference.replace_classes(state, updates.clients, classes_NM)
        return state.with_rows(rows, labels_K).keep(**{inference.CLASSES: classes_KM})

    def _place_waiting(self, state: State, updates: Updates) -> tuple[State, Updates, Mapping[int, str]]:
        """Put clients that waited into clusters.

        Returns:
            The new state, the updates of the other clients, and the reason for each placed client's cluster.
        """
        late = updates.select(_find_waiting(state))
        if not late.clients:
            return state, updates, {}
        _, classes_NM = inference.infer_similarities(late, self.settings.labels, self.settings.similarity)
        labels_K = state.labels_K.copy()
        reasons = {}
        # Without the last model, which is the initial one of those that wait.
        members = [np.array(state.members(label)) for label in range(len(state.models) - 1)]
        for client, classes_M in zip(late.clients, classes_NM, strict=True):
            means = [
                float(
                    inference.compute_agreements(
                        classes_M[None], state.arrays[inference.CLASSES][group]
                    ).mean()
                )
                for group in members
            ]
            labels_K[client] = int(np.argmax(means))
            text = ", ".join(f"{label}: {mean:.3f}" for label, mean in enumerate(means))
            reasons[client] = f"mean agreement {text}"
        classes_KM = inference.replace_classes(state, late.clients, classes_NM)
        state = replace(state, labels_K=labels_K).keep(**{inference.CLASSES: classes_KM})
        if not len(_find_waiting(state)):
            # Nobody waits any more: the initial model goes.
            state = state.with_rows(range(len(state.models) - 1), labels_K)
        return state, updates.select(set(updates.clients) - set(late.clients)), reasons


def _find_waiting(state: State) -> Labels:
    """Find the ids of the clients without predictions."""
    if inference.CLASSES not in state.arrays:
        return np.arange(len(state.labels_K))
    return np.flatnonzero(state.arrays[inference.CLASSES][:, 0] == inference.UNKNOWN)
