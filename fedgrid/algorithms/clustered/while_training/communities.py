"""Communities of models: a graph of the clients' latest models, clustered in each round.

Source: Bettinelli, Benoit, Grandjean 2024 (Louvain on trusted distances; attributions AVG, 1NN and WNN; Late
after Espinoza-Castellon). Deviations: WNN's weights sum to one and are not divided by their number again, as
in the authors' code; models that have grown old can be left out (`max_age`); distances are made symmetric
without regard to the order of the clients.

Shapes: K clients of the federation, N of them with a model, C communities, P entries of a state vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings, build_server_conditions
from fedgrid.algorithms.clustering import graph
from fedgrid.algorithms.clustering.measures import compute_silhouette
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, Labels, State, StepResult, Traits
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_method import find_refusal
from fedgrid.algorithms.contract.orders import Order, Presence
from fedgrid.algorithms.contract.section import Condition, FirstRound
from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.updates.products import MODEL_PRECISION, list_shares
from fedgrid.algorithms.updates.source import Layout, Matrix, Rng, Vector
from fedgrid.algorithms.updates.updates import Updates

BIBTEX = r"""% Title and venue are not known to fedgrid: complete them.
@misc{bettinelli2024,
  author = {Bettinelli and Benoit and Grandjean},
  year = {2024}
}"""

NEVER = -1
"""Last round of a client that has not been seen yet."""


class CommunitiesSettings(FedOptSettings):
    """Settings of the community algorithms: how models are compared, grouped and handed out.

    The server optimizer acts with `late` only.
    """

    distance: Literal["trusted", "cosine", "euclidean"] = "trusted"
    """Distance between models. The trusted one sees parameters only, whatever `similarity_over` says."""
    exponent: PositiveFloat = 3.0
    """Exponent of the similarities; the higher, the less distant clients count."""
    resolution: PositiveFloat = 1.0
    """Higher gives more, smaller communities; 1 is plain modularity. The paper says the opposite, as its
    library does below 1."""
    attribution: Literal["avg", "1nn", "wnn"] = "1nn"
    """Model that a client starts from: the mean of the community models, the one nearest to its own latest
    model, or a mixture of the nearest ones."""
    neighbours: PositiveInt = 3
    """Number of community models that WNN mixes, k."""
    beta: NonNegativeFloat = 1.0
    """WNN's weights are proportional to exp(-beta distance)."""
    late: Annotated[PositiveInt | None, FirstRound()] = None
    """The round, counted from 1, of the only clustering: one model for all before it, fixed communities
    that train apart after it, no attribution. None: a clustering each round."""
    max_age: Annotated[NonNegativeInt | None, FirstRound(later=2)] = None
    """Rounds after which a client's model leaves graph and means until the client takes part again; 0:
    this round's models only. None: never (as published)."""

    acts_with: ClassVar[Mapping[str, Condition]] = {
        **build_server_conditions(lambda given: given.late is not None, "late"),
        "attribution": Condition(lambda given: given.late is None, "late null"),
        **dict.fromkeys(
            ("neighbours", "beta"),
            Condition(lambda given: given.attribution == "wnn" and given.late is None, "attribution wnn"),
        ),
    }


class Communities(FedOpt):
    """Communities of the clients' latest models; base of `Louvain` and `Leiden`.

    In each round the models of the clients that took part, start plus update, replace their last ones. The
    distances d between all latest models become similarities ((max - d) / (max - min))^`exponent`; those of 0
    are no edges. The communities of largest modularity are the clusters. A community's model is the mean of
    its members' latest models, or what `aggregate` makes of them. Clients are tested with it, but start the
    next round from their `attribution`.

    The trusted distance is T(a, b) = prod over layers of (1 + |a_l - b_l| / |a_l|), minus 1. A layer is a
    module: a bias counts with its kernel, and running statistics never count. (The published code takes each
    tensor for a layer, so that a bias of norm 1e-6 rules the product.) A layer more than ten times shorter in
    a than in b counts as ten times shorter. T is not symmetric: the graph takes sqrt((1 + T(a, b)) (1 + T(b,
    a))) - 1.

    Sends: A sampled client gets the model that it is attributed, and returns its update. The server keeps the
    latest model of every client: 2.5 GB for 30 ResNet-34.

    Degenerate cases:

    - If all distances are equal, up to a share of 1e-6, there is one community; so two clients form one.
      Models that differ by rounding only are at distance 0.
    - Min-max scaling enlarges any difference: the farthest pair always loses its edge. A client that is far
      from all others leaves them with similarities near 1.
    - Where the graph has no clear communities, the result depends on the seeded order of the moves.

    Absent clients: A client keeps its latest model in the graph, until it is older than `max_age`; then it is
    labelled with the community nearest to that model. One that has never taken part starts from the global
    model and is labelled with the largest community. With `late` no client waits: both go there for good.

    Memory: `client_model_<id>` (float32, shape (P,)), the latest model of each client seen so far, and
    `weights_K` (float64), its weight in means, if clients have weights; `last_seen_K` (int64), the index of
    the round it is of, -1 for never; `start_K` (int64), the model that each client starts from. With `late`
    there is no `start_K`, and after it there are no client models.
    """

    settings: CommunitiesSettings
    library: ClassVar[graph.Library]
    """The library that finds the communities."""

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build the state of one model for all; no client has been seen yet."""
        last_seen_K = np.full(num_clients, NEVER, np.int64)
        if self.settings.late is not None:
            return super().init(layout, num_clients, fresh, rng).keep(last_seen_K=last_seen_K)
        zeros_K = np.zeros(num_clients, np.int64)
        return State((fresh(0),), zeros_K, {"last_seen_K": last_seen_K, "start_K": zeros_K})

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm; with `late` it averages updates, otherwise latest models."""
        traits = super().traits
        averages = traits.averages_updates and self.settings.late is not None
        return replace(traits, averages_updates=averages, packages=("igraph", "leidenalg"))

    def start_order_key(self) -> tuple[float, ...]:
        """Deviate from FedAvg in every round, or in round `late` only."""
        return (self.settings.late or 1,)

    def problem(self, conditions: Conditions) -> str | None:
        """Explain a conflict of `local` and the clients' training; without `late`, models are averaged."""
        averages_models = self.settings.late is None
        return find_refusal(
            self.settings.local, self.settings.aggregate, averages_models=averages_models
        ) or super().problem(conditions)

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: Rng
    ) -> Sequence[Order]:
        """Send each sampled client its start model, which need not be its community's."""
        # A start may be a mixture that is no community's model, so it is not the label.
        start_K = _read_starts(state)
        rule = self.rule(layout)
        return [Order(client, (int(start_K[client]),), rule=rule) for client in present.sampled]

    def global_model(self, state: State) -> Vector:
        """Compute W of the paper, the plain mean of the community models, however large their communities."""
        num_communities = int(state.labels_K.max()) + 1
        return _mix_models(state.models[:num_communities], np.full(num_communities, 1 / num_communities))

    def step(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Find the communities of the latest models, average them, choose the next starts."""
        if self.settings.late is not None:
            return super().step(state, round_index, updates, rng)
        state = _store_models(state, round_index, updates)
        groups, score = self._find_communities(state, round_index, updates.layout, rng)
        diagnostics = Diagnostics(clustered=True, silhouette=score)
        return self._attribute_models(state, groups, updates.layout, rng), diagnostics

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Split the federation's only cluster, if this is the round of `late`."""
        rounds_left = (self.settings.late or 0) - 1 - round_index
        if rounds_left < 0:
            return state, Diagnostics()
        state = _store_models(state, round_index, updates)
        if rounds_left > 0:
            return state, Diagnostics()
        groups, score = self._find_communities(state, round_index, updates.layout, rng)
        placed = self._attribute_models(state, groups, updates.layout, rng)
        parts = [placed.members(label) for label in range(len(groups))]
        # Updates are averaged from now on: the client models are no longer needed, and take the most memory.
        return split(state.without(*map(_model_name, range(len(state.labels_K)))), 0, parts), Diagnostics(
            clustered=True, silhouette=score
        )

    def place(self, state: State, updates: Updates) -> State:
        """Label the client with the community nearest to its model; with `late` it stays in the largest."""
        if self.settings.late is not None:
            return state
        labels_K = state.labels_K.copy()
        num_communities = int(state.labels_K.max()) + 1
        # The client's model is row 0: the trusted distance is relative to the row's norms.
        models = [
            *_latest_models(_store_models(state, 0, updates), updates.clients),
            *state.models[:num_communities],
        ]
        labels_K[list(updates.clients)] = self._compare_models(models, updates.layout)[0, 1:].argmin()
        return replace(state, labels_K=labels_K)

    def _find_communities(
        self, state: State, round_index: int, layout: Layout, rng: Rng
    ) -> tuple[graph.Groups, float | None]:
        """Find the communities, by client ids, of the models that are not too old, and their silhouette."""
        last_seen_K = state.arrays["last_seen_K"]
        # -1, a client never seen, is below any round.
        oldest = 0 if self.settings.max_age is None else max(0, round_index - self.settings.max_age)
        clients = np.flatnonzero(last_seen_K >= oldest)
        distances_KK = self._compare_models(_latest_models(state, clients), layout, symmetric=True)
        similarities_KK = graph.compute_similarities(distances_KK, self.settings.exponent)
        groups = graph.find_communities(similarities_KK, self.library, self.settings.resolution, rng)
        return [clients[group].tolist() for group in groups], compute_silhouette(distances_KK, groups)

    def _attribute_models(self, state: State, groups: graph.Groups, layout: Layout, rng: Rng) -> State:
        """Build the community models, and give every client its label and its start.

        A client whose model is too old is labelled with the community nearest to that model. One that was
        never seen starts from the global model and is labelled with the largest community.
        """
        weights_K = state.arrays.get("weights_K")
        aggregate = self.settings.aggregate.seed_round(rng)
        models = [
            aggregate.combine(
                _latest_models(state, group),
                None if weights_K is None else list_shares(group, dict(enumerate(weights_K.tolist()))),
            )
            for group in groups
        ]
        largest = max(range(len(groups)), key=lambda index: len(groups[index]))
        labels_K = np.full_like(state.labels_K, largest)
        weights_KC = np.full((len(labels_K), len(groups)), 1 / len(groups))
        seen = np.flatnonzero(state.arrays["last_seen_K"] != NEVER)
        # With `avg` all start from one model, so only clients that are in no community need distances, for
        # their labels.
        if self.settings.attribution == "avg":
            seen = np.setdiff1d(seen, np.concatenate(groups))
        if len(seen):
            distances = self._compare_models([*_latest_models(state, seen), *models], layout)
            distances_NC = distances[: len(seen), len(seen) :]
            labels_K[seen] = distances_NC.argmin(axis=1)
            if self.settings.attribution != "avg":
                neighbours = 1 if self.settings.attribution == "1nn" else self.settings.neighbours
                weights_KC[seen] = weigh_nearest(distances_NC, neighbours, self.settings.beta)
        for label, group in enumerate(groups):
            labels_K[group] = label
        mixtures, start_K = number_starts(models, weights_KC)
        return replace(state, models=(*models, *mixtures), labels_K=labels_K).keep(start_K=start_K)

    def _compare_models(self, models: Sequence[Vector], layout: Layout, symmetric: bool = False) -> Matrix:
        """Compute the distances between models, from each row's point of view unless `symmetric`."""
        if self.settings.distance == "trusted":
            measure = graph.compute_symmetric_distances if symmetric else graph.compute_trusted_distances
            return measure(models, layout)
        over = self.settings.similarity_over
        view = Updates(dict(enumerate(models)), layout, similarity_over=over, least=MODEL_PRECISION)
        return view.cosine_distances_KK if self.settings.distance == "cosine" else view.euclidean_distances_KK


class Louvain(Communities):
    """Communities by igraph's Louvain method."""

    library = "louvain"


class Leiden(Communities):
    """Communities by leidenalg's Leiden method."""

    library = "leiden"


def weigh_nearest(distances_NC: Matrix, neighbours: int, beta: float) -> Matrix:
    """Weigh the nearest communities in proportion to exp(-beta d); the others have weight 0.

    Each row sums to one. Of equally distant communities the first are taken. Distances count from the nearest
    one, which changes no weight and prevents that the exponentials of large ones are all 0.
    """
    # Stable, so that of equally distant communities the first are taken on every machine.
    nearest_NC = np.argsort(distances_NC, axis=1, kind="stable")[:, :neighbours]
    nearby_NC = np.take_along_axis(distances_NC, nearest_NC, axis=1)
    parts_NC = np.exp(-beta * (nearby_NC - nearby_NC[:, :1]))
    weights_NC = np.zeros_like(distances_NC)
    np.put_along_axis(weights_NC, nearest_NC, parts_NC / parts_NC.sum(axis=1, keepdims=True), axis=1)
    return weights_NC


def number_starts(models: Sequence[Vector], weights_KC: Matrix) -> tuple[list[Vector], Labels]:
    """Number the models that clients start from: first `models`, then each other mixture once.

    A row of equal weights is the global model.

    Returns:
        The mixtures that are none of `models`, and the position of each client's start, shape (K,).
    """
    # By their bytes: clients with the same weights share a model, which is stored and sent once.
    places = {row.tobytes(): index for index, row in enumerate(np.eye(len(models)))}
    mixtures = []
    for row in weights_KC:
        if row.tobytes() not in places:
            places[row.tobytes()] = len(places)
            mixtures.append(_mix_models(models, row))
    return mixtures, np.array([places[row.tobytes()] for row in weights_KC], np.int64)


def _mix_models(models: Sequence[Vector], weights_C: Matrix) -> Vector:
    """Mix models by weights, float32."""
    mixture = np.zeros_like(models[0])
    for model, weight in zip(models, weights_C, strict=True):
        if weight:
            mixture += float(weight) * model
    return mixture


def _store_models(state: State, round_index: int, updates: Updates) -> State:
    """Store the latest models of the clients that took part, and their weights."""
    last_seen_K = state.arrays["last_seen_K"].copy()
    start_K = _read_starts(state)
    models = {}
    for client, update_P in zip(updates.clients, updates.vectors(), strict=True):
        # The model that the client started from, not its community's, is what its update changes.
        models[_model_name(client)] = state.models[int(start_K[client])] + update_P
        last_seen_K[client] = round_index
    if updates.weights is not None:
        weights_K = state.arrays.get("weights_K", np.ones(len(last_seen_K))).copy()
        weights_K[list(updates.clients)] = [updates.weights[client] for client in updates.clients]
        state = state.keep(weights_K=weights_K)
    return state.keep(last_seen_K=last_seen_K, **models)


def _read_starts(state: State) -> Labels:
    """Read the position of the model that each client starts from; without the array its cluster's."""
    return state.arrays.get("start_K", state.labels_K)


def _latest_models(state: State, clients: Sequence[int] | Labels) -> list[Vector]:
    """List the latest models of these clients."""
    return [state.arrays[_model_name(int(client))] for client in clients]


def _model_name(client: int) -> str:
    """Name the state's array with a client's latest model."""
    return f"client_model_{client}"
