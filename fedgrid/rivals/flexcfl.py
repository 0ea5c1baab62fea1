"""FlexCFL (FedGroup): groups by a short training before round 1, and places for newcomers by the same.

Source: Duan, Liu, Ji, Wu, Liang, Chen, Tan, Ren, Flexible Clustered Federated Learning for Client-Level Data
Distribution Shift, IEEE TPDS 2022, arXiv:2108.09749; the groups are those of FedGroup, arXiv:2010.06870; and
the authors' code (morningD/FlexCFL).

1. In round 1, min(20 K, all) random clients that have joined train the initial model w_0 for `pretrain_steps`
   batches; delta_i is the change.
2. e_ik = cos(delta_i, u_k), with u_k the k-th left singular vector of the matrix of all delta_i, for k = 1 to
   K; k-means of e makes K groups.
3. A group's model g_k is w_0 plus the mean of its members' delta_i, its direction o_k that mean.
4. Later a sampled client without a group trains w_0 in the same way, and joins the group with the largest
   cos(delta_i, o_k). One with a group trains g_k, which moves by the mean of its sampled members' updates.
5. With eta = `group_rate`, the groups that were trained in the round move towards the others' directions, all
   at once: g_k = (g_k + eta sum_l g_l / |g_l|) / (1 + eta sum_l 1 / |g_l|), over the others l of them.

A client is tested with its group's model, one without a group with that of the largest group. A client that
was held out trains w_0 once, joins a group as in 4, and is tested with its model.

Deviations: a client that has joined a group trains there from the next round on in which it is sampled, as a
round sends one order to a client; the code lets it train at once. Step 4 averages by the run's `weights`, the
authors by images. Clients do not move when their data change. `participation` has no effect on round 1.
Step 5 leaves BatchNorm statistics as they are. The authors' figures test the model that a client received
last.

Shapes: K clients of the federation, N of a round, G groups (K in the paper), P entries of a state vector.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field

from fedgrid import (
    AlgorithmEntry,
    Conditions,
    Diagnostics,
    FedOpt,
    Fresh,
    Layout,
    Order,
    OwnRuleSettings,
    Presence,
    State,
    Updates,
)

BIBTEX = r"""@article{duan2022flexible,
  author = {Duan, Moming and Liu, Duo and Ji, Xinyuan and Wu, Yu and Liang, Liang and Chen, Xianzhang
    and Tan, Yujuan and Ren, Ao},
  title = {Flexible Clustered Federated Learning for Client-Level Data Distribution Shift},
  journal = {IEEE Transactions on Parallel and Distributed Systems},
  year = {2022},
  eprint = {2108.09749},
  archiveprefix = {arXiv}
}"""
HAS_GROUP, DIRECTIONS = "has_group", "directions"
"""Arrays of the state: whether a client has a group, bool, shape (K,); o_k, float32, shape (G, P), from round
1 on. The last of the state's models is w_0, the others are g_k."""


class FlexCFLSettings(OwnRuleSettings):
    """Settings of FlexCFL: the groups, and how they are found and kept together."""

    num_clusters: Annotated[int, Field(ge=1, strict=True)] = 3
    """K in the paper: the number of groups."""
    pretrain_steps: Annotated[int, Field(ge=1, strict=True)] = 50
    """Batches of w_0 on which a client trains before it has a group."""
    group_rate: Annotated[float, Field(ge=0)] = 0.0
    """eta_g: how far groups move towards each other in each round; the authors' page has 0.1."""


class FlexCFL(FedOpt):
    """FedOpt within groups that are found once, by a short training of one model.

    Sends: A sampled client gets one model and returns one update, in round 1 and in its first round w_0 and
    delta_i.

    Degenerate cases:

    - With one group it is FedAvg from the mean of the models of round 1.
    - Fewer different clients than groups in round 1 make fewer groups; a warning says so. More groups than
      clients are refused.
    - A zero update has cosine 0 to all directions, and joins the first group.

    Absent clients: A client that is away keeps its group. One without a group finds its group in the first
    round in which it is sampled.

    Memory: `has_group` (bool), `directions` (float32, shape (G, P)), and w_0 as the last model.
    """

    settings: FlexCFLSettings

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse more groups than clients."""
        return conditions.too_few_for(self.settings.num_clusters) or super().problem(conditions)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Build the state of w_0 alone."""
        state = super().init(layout, num_clients, fresh, rng)
        return state.keep(**{HAS_GROUP: np.zeros(num_clients, bool)})

    def orders(
        self, state: State, round_index: int, present: Presence, layout: Layout, rng: np.random.Generator
    ) -> Sequence[Order]:
        """Let clients with a group train its model, the others w_0 for a few steps."""
        clients: Sequence[int] = present.sampled
        if DIRECTIONS not in state.arrays:
            count = min(20 * self.settings.num_clusters, len(present.joined))
            clients = sorted(rng.choice(present.joined, count, replace=False).tolist())
        initial, steps = len(state.models) - 1, self.settings.pretrain_steps
        return [
            Order(client, (int(state.labels_K[client]),))
            if state.arrays[HAS_GROUP][client]
            else Order(client, (initial,), steps=steps)
            for client in clients
        ]

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Find the groups, or move them and give newcomers theirs."""
        if DIRECTIONS not in state.arrays:
            return self._found_groups(state, updates, rng)
        has_group_K = state.arrays[HAS_GROUP]
        grouped = updates.select(client for client in updates.clients if has_group_K[client])
        if grouped.clients:
            state = self.aggregate(state, grouped, rng)
            state = self._move_together(state, sorted(grouped.groups(state.labels_K)), updates.layout)
        state = self.place(state, updates)
        joined = set(updates.clients) - set(grouped.clients)
        placed = {client: "nearest direction of its first training" for client in sorted(joined)}
        return state, Diagnostics(placed=placed)

    def place(self, state: State, updates: Updates) -> State:
        """Let the clients of `updates` that have no group join the one with the nearest direction."""
        has_group_K, labels_K = state.arrays[HAS_GROUP].copy(), state.labels_K.copy()
        new = updates.select(client for client in updates.clients if not has_group_K[client])
        num_weights = updates.layout.num_parameters
        directions_GW = state.arrays[DIRECTIONS][:, :num_weights].astype(np.float64)
        norms_G = np.maximum(np.linalg.norm(directions_GW, axis=1), np.finfo(np.float64).tiny)
        for client, update in zip(new.clients, new.vectors(), strict=True):
            # The client's norm divides all cosines alike.
            labels_K[client] = (directions_GW @ update[:num_weights] / norms_G).argmax()
            has_group_K[client] = True
        return replace(state, labels_K=labels_K).keep(**{HAS_GROUP: has_group_K})

    def _found_groups(
        self, state: State, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Cluster the clients of round 1 by the directions of their training."""
        # Imports scikit-learn, which takes a while; algorithms are listed without it.
        from sklearn.cluster import KMeans

        # Of delta = U S V', <delta_i, u_k> = S_k V_ik, and V S^2 V' are the inner products.
        squares_N, axes_NN = np.linalg.eigh(updates.gram_KK)
        lengths_N = np.sqrt(np.maximum(squares_N, 0))
        norms_N1 = np.maximum(updates.norms_K, np.finfo(np.float64).tiny)[:, None]
        cosines_NG = (axes_NN * lengths_N / norms_N1)[:, ::-1][:, : self.settings.num_clusters]
        num_different = len(np.unique(updates.cosine_distances_KK, axis=0))
        count = min(self.settings.num_clusters, num_different)
        labels_N = KMeans(count, n_init=10, random_state=int(rng.integers(2**31))).fit_predict(cosines_NG)
        clients_N = np.array(updates.clients)
        groups = [clients_N[labels_N == label].tolist() for label in np.unique(labels_N)]
        groups.sort(key=lambda group: group[0])
        directions = updates.means(groups, dict.fromkeys(updates.clients, 1.0))
        labels_K = np.full_like(state.labels_K, max(range(len(groups)), key=lambda at: len(groups[at])))
        for number, group in enumerate(groups):
            labels_K[group] = number
        state = state.with_rows([0] * (len(groups) + 1), labels_K)
        models = [state.models[0] + direction for direction in directions]
        has_group_K = np.isin(np.arange(len(labels_K)), clients_N)
        state = replace(state, models=(*models, state.models[-1])).keep(
            **{HAS_GROUP: has_group_K, DIRECTIONS: np.stack(directions)}
        )
        warning = f"num_clusters = {self.settings.num_clusters}, but the first clients make {len(groups)}"
        warnings = (warning,) if len(groups) < self.settings.num_clusters else ()
        return state, Diagnostics(clustered=True, warnings=warnings)

    def _move_together(self, state: State, groups: Sequence[int], layout: Layout) -> State:
        """Move the models of these groups towards each other's directions."""
        eta, part = self.settings.group_rate, slice(layout.num_parameters)
        if not eta or len(groups) < 2:
            return state
        models_GW = np.stack([state.models[group][part] for group in groups]).astype(np.float64)
        rates_G1 = eta / np.linalg.norm(models_GW, axis=1, keepdims=True)
        others_GW = (rates_G1 * models_GW).sum(axis=0) - rates_G1 * models_GW
        moved_GW = (models_GW + others_GW) / (1 + rates_G1.sum() - rates_G1)
        models = list(state.models)
        for group, moved_W in zip(groups, moved_GW, strict=True):
            models[group] = np.append(moved_W, models[group][part.stop :]).astype(np.float32)
        return replace(state, models=tuple(models))


ALGORITHMS = [
    AlgorithmEntry(
        name="flexcfl",
        title="FlexCFL",
        summary="groups by a short training before round 1, and places for newcomers by the same",
        source="Duan et al. 2022, arXiv:2108.09749",
        algorithm=FlexCFL,
        settings=FlexCFLSettings(),
        search={"num_clusters": [2, 3, 4], "pretrain_steps": [20, 50], "group_rate": [0.0, 0.1]},
        told="number",
        bibtex=BIBTEX,
    )
]
