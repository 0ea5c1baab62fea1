"""FeSEM: k-means of the clients' models, one step in each round; WeCFL weighs clients by their images.

Source: FeSEM is Xie, Long, Shen, Zhou, Wang, Jiang, Zhang, Multi-Center Federated Learning, arXiv:2005.01026;
WeCFL is Ma, Long, Zhou, Jiang, Zhang, On the Convergence of Clustered Federated Learning, arXiv:2202.06187.
Both minimise sum_i a_i |w_i - W_r(i)|^2 over clusters r(i) and centres W_k, with a_i = 1 (FeSEM, `weigh:
equal`) or the number of images (WeCFL, `weigh: images`). The objective and its two steps are from memory of
the papers. In each round:

1. Each sampled client trains from the centre of its cluster to its own model w_i.
2. r(i) = argmin_k |w_i - W_k|^2, over the parameters, with the centres that the clients started from; ties go
   to the first.
3. W_k = the mean of w_i over the clients of cluster k, by a_i.

In the first round all train one model, and step 2 is k-means of their models: of ten k-means++ starts the
one with the least sum of squares. A client is tested with the centre of its cluster.

Deviations: the first partition is k-means of trained models; the authors' code starts from random clusters,
and compares the kernel of the last layer only. The numbers of clusters stay, as centres go on from round to
round; WeCFL's first author draws k-means again in each round, which renumbers them. Absent clients are in
no mean. A newcomer, and a client that was absent from the first round, starts from the centre of the largest
cluster; a client that was held out trains once from there, and is tested with the nearest centre.

Shapes: K clients of the federation, C centres, N clients of a round, P entries of a state vector.
"""

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from fedgrid import (
    Algorithm,
    AlgorithmEntry,
    Conditions,
    Diagnostics,
    Fresh,
    Layout,
    Settings,
    State,
    Traits,
    Updates,
    Vector,
    split,
)

BIBTEX = r"""@misc{xie2020multicenter,
  author = {Xie, Ming and Long, Guodong and Shen, Tao and Zhou, Tianyi and Wang, Xianzhi and Jiang, Jing
    and Zhang, Chengqi},
  title = {Multi-Center Federated Learning},
  year = {2020},
  eprint = {2005.01026},
  archiveprefix = {arXiv}
}

@misc{ma2022convergence,
  author = {Ma, Jie and Long, Guodong and Zhou, Tianyi and Jiang, Jing and Zhang, Chengqi},
  title = {On the Convergence of Clustered Federated Learning},
  year = {2022},
  eprint = {2202.06187},
  archiveprefix = {arXiv}
}"""


class FeSEMSettings(Settings):
    """Number of the clusters, and the weights of clients in their centres."""

    num_clusters: Annotated[int, Field(ge=1, strict=True)] = 2
    """K in the papers: the number of clusters."""
    weigh: Literal["equal", "images"] = "equal"
    """a_i: `equal` is FeSEM, `images` is WeCFL. It replaces the run's `weights`."""


class FeSEM(Algorithm):
    """Centres that are means of models; a client belongs to the nearest one.

    BatchNorm statistics are averaged with a centre, and take no part in distances, unless `similarity_over`
    is `state`.

    Sends: A sampled client gets its centre and returns its update.

    Degenerate cases:

    - With one cluster it is FedAvg to the bit, by equal weights or by numbers of images.
    - A cluster that no client of a round is nearest to keeps its centre.
    - Fewer different clients than clusters in the first round make fewer clusters; a warning says so. More
      clusters than clients are refused.

    Absent clients: A client that is away keeps its cluster, and is tested with the newest centre.

    Memory: The centres alone.
    """

    settings: FeSEMSettings

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm: centres are means of earlier ones and of updates."""
        return Traits(averages_updates=True)

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse more clusters than clients."""
        return conditions.too_few_for(self.settings.num_clusters)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: np.random.Generator) -> State:
        """Build the state of one model for all."""
        return State((fresh(0),), np.zeros(num_clients, np.int64))

    def step(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Choose each client's cluster, then average the clusters' models."""
        started_K = state.labels_K
        warnings: tuple[str, ...] = ()
        if len(state.models) == 1:
            groups = self._find_first_groups(updates, rng)
            state = split(state, 0, groups)
            started_K = state.labels_K  # All centres are one model still.
            if len(groups) < self.settings.num_clusters:
                warnings = (
                    f"num_clusters = {self.settings.num_clusters}, but the first clients make {len(groups)}",
                )
        else:
            state = self.place(state, updates)
        models = self._average_models(state, started_K, updates)
        return replace(state, models=models), Diagnostics(clustered=True, warnings=warnings)

    def place(self, state: State, updates: Updates) -> State:
        """Move the clients of `updates` to the clusters with the nearest centres."""
        is_compared = self.settings.similarity_over == "parameters"
        width = updates.layout.num_parameters if is_compared else updates.layout.size
        centres_CW = np.stack([model[:width] for model in state.models])
        labels_K = state.labels_K.copy()
        for client, update in zip(updates.clients, updates.vectors(), strict=True):
            trained_W = centres_CW[state.labels_K[client]] + update[:width]
            distances_C = np.square(centres_CW - trained_W, dtype=np.float64).sum(axis=1)
            labels_K[client] = distances_C.argmin()
        return replace(state, labels_K=labels_K)

    def _find_first_groups(self, updates: Updates, rng: np.random.Generator) -> list[list[int]]:
        """Find the clusters of clients that started from one model, by k-means; ids of each."""
        # Imports scikit-learn, which takes a while; algorithms are listed without it.
        from sklearn.cluster import KMeans

        # Points with the updates' inner products have their distances: no update is read.
        squares_N, axes_NN = np.linalg.eigh(updates.gram_KK)
        points_NN = axes_NN * np.sqrt(np.maximum(squares_N, 0))
        num_different = len(np.unique(updates.euclidean_distances_KK, axis=0))
        method = KMeans(
            min(self.settings.num_clusters, num_different),
            n_init=10,
            random_state=int(rng.integers(2**31)),
        )
        labels_N, clients_N = method.fit_predict(points_NN), np.array(updates.clients)
        return [clients_N[labels_N == label].tolist() for label in np.unique(labels_N)]

    def _average_models(self, state: State, started_K: np.ndarray, updates: Updates) -> tuple[Vector, ...]:
        """Average the models of each cluster's clients, which started from the centres `started_K`."""
        by_images = self.settings.weigh == "images"
        weights = {client: updates.images[client] if by_images else 1 for client in updates.clients}
        groups = updates.groups(state.labels_K)
        models = list(state.models)
        for (cluster, members), mean in zip(
            groups.items(), updates.means(list(groups.values()), weights), strict=True
        ):
            shares_C = np.bincount(started_K[members], [weights[client] for client in members])
            pairs = zip((shares_C / shares_C.sum()).tolist(), state.models, strict=False)
            start = sum(share * model.astype(np.float64) for share, model in pairs if share)
            models[cluster] = start.astype(np.float32) + mean
        return tuple(models)


ALGORITHMS = [
    AlgorithmEntry(
        name="fesem",
        title="FeSEM",
        summary="k-means of the clients' models, one step in each round",
        source="Xie et al. 2020, arXiv:2005.01026",
        algorithm=FeSEM,
        settings=FeSEMSettings(),
        search={"num_clusters": [2, 3, 4], "weigh": ["equal", "images"]},
        told="number",
        bibtex=BIBTEX,
    )
]
