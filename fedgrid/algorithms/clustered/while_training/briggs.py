"""BCL: cluster once, in a fixed round, by agglomerative clustering of the updates (FL+HC).

Source: Briggs, Fan, Andras, Federated learning with hierarchical clustering of local updates to improve
training on non-IID data, IJCNN 2020, arXiv:2004.11791.

Shapes: K clients that are clustered.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import NonNegativeFloat, PositiveInt, model_validator

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings, select_moving
from fedgrid.algorithms.clustering.clusterers import cut_agglomerative, group_by_labels
from fedgrid.algorithms.clustering.pooled_cosines import (
    CosineSettings,
    compute_clustering_distances,
    pool_cosines,
)
from fedgrid.algorithms.clustering.splits import split_positions
from fedgrid.algorithms.contract.base import Diagnostics, Labels, State, StepResult
from fedgrid.algorithms.contract.section import FirstRound
from fedgrid.algorithms.updates.source import Matrix, Rng
from fedgrid.algorithms.updates.updates import Updates

BIBTEX = r"""@inproceedings{briggs2020federated,
  author = {Briggs, Christopher and Fan, Zhong and Andras, Peter},
  title = {Federated Learning with Hierarchical Clustering of Local Updates to Improve Training on
    Non-{IID} Data},
  booktitle = {International Joint Conference on Neural Networks (IJCNN)},
  year = {2020},
  eprint = {2004.11791},
  archiveprefix = {arXiv}
}"""


class BriggsSettings(CosineSettings, FedOptSettings):
    """Settings of BCL: when and how the updates are clustered."""

    round: Annotated[PositiveInt, FirstRound()] = 21
    """The round of the clustering, counted from 1."""
    threshold: NonNegativeFloat = 0.4
    """Clusters merge while their distance is below this; in units of the metric (cosine: 0..2)."""
    linkage: Literal["average", "complete", "single", "ward"] = "average"
    """Distance between two clusters, from the distances of their members; ward needs `metric: euclidean`."""
    metric: Literal["cosine", "euclidean", "manhattan"] = "cosine"
    """Distance between updates."""

    @model_validator(mode="after")
    def _ward_is_euclidean(self) -> "BriggsSettings":
        """Refuse Ward's linkage with other distances, for which it is not defined."""
        if self.linkage == "ward" and self.metric != "euclidean":
            raise ValueError(f"linkage 'ward' needs metric 'euclidean', not '{self.metric}'")
        return self

    @model_validator(mode="after")
    def _cosines_are_of_cosine(self) -> "BriggsSettings":
        """Refuse settings of cosines with other metrics, where they have no effect."""
        for option in CosineSettings.omitted_defaults:
            if getattr(self, option) and self.metric != "cosine":
                raise ValueError(f"{option} has no effect with metric '{self.metric}', only with cosine")
        return self


class BriggsAsPublishedSettings(BriggsSettings):
    """The settings of the archived runs; linkage and metric were fixed."""

    similarity_over: Literal["parameters", "state"] = "state"
    threshold: NonNegativeFloat = 0.05
    linkage: Literal["average"] = "average"
    metric: Literal["cosine"] = "cosine"


class Briggs(FedOpt):
    """One clustering, in `round`; before it plain averaging, after it a fixed partition.

    Degenerate cases:

    - Too high a threshold gives one cluster, which is BNC; too low a one gives one cluster a client.
    - A client without a usable update, or with a zero one, joins the largest cluster.
    - With fewer than two others in that round there is a warning, and never a clustering.

    Absent clients: The clients that are present in `round` are clustered. The others wait with the model
    before the split; the next time one is sampled, it joins the cluster with the least mean cosine distance
    to its members' updates at the split.
    """

    settings: BriggsSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Order runs by `round`, after those that can deviate from FedAvg in round 2."""
        return (3.0, self.settings.round)

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Split the federation's only cluster, if this is the round.

        Clients without an update, or with a zero one, join the largest cluster. With fewer than two others
        there is no clustering, now or later.

        Args:
            state: the state so far.
            round_index: the round, from 0.
            updates: the usable updates of this round.
            rng: not used.
        """
        # No pooling after the clustering: nothing reads the sums any more.
        if self.settings.pool_rounds and round_index < self.settings.round:
            state = pool_cosines(state, select_moving(updates), standardise=self.settings.standardise)
        if round_index + 1 != self.settings.round:
            return state, Diagnostics()
        # A zero update has no direction, so no distance to others.
        part = select_moving(updates)
        if len(part.clients) < 2:
            warning = "fewer than two clients have an update in the clustering round: no clusters"
            return state, Diagnostics(warnings=(warning,))
        distances_KK = self.distances(part)
        if self.settings.metric == "cosine":
            distances_KK = compute_clustering_distances(state, part, self.settings)
        # The tree has no noise; the argument has no effect.
        groups = group_by_labels(self.cut_tree(distances_KK), distances_KK, "residual")
        return split_positions(state, 0, part, groups), Diagnostics(clustered=True)

    def distances(self, updates: Updates) -> Matrix:
        """Compute the distances in the chosen metric, float64, shape (K, K)."""
        if self.settings.metric == "cosine":
            return updates.cosine_distances_KK
        if self.settings.metric == "euclidean":
            return updates.euclidean_distances_KK
        return updates.manhattan_distances_KK

    def cut_tree(self, distances_KK: Matrix) -> Labels:
        """Label the clusters whose merges are all below the threshold, K >= 2."""
        return cut_agglomerative(distances_KK, self.settings.linkage, self.settings.threshold)


class BriggsAsPublished(Briggs):
    """The OCFL authors' version: cosine similarities instead of distances, so unlike clients join.

    As published: The matrix of similarities, diagonal 1, is handed over as distances. Of 16 archived runs of
    the small CNN 12 merge all clients, 4 mix the true groups (ARI -0.235); the 24 ResNet runs are singletons.
    """

    def cut_tree(self, distances_KK: Matrix) -> Labels:
        """Label the clusters whose mean similarity is below the threshold."""
        # scikit-learn, as the authors called it.
        from sklearn.cluster import AgglomerativeClustering

        method = AgglomerativeClustering(
            n_clusters=None,
            metric="precomputed",
            linkage=self.settings.linkage,
            distance_threshold=self.settings.threshold,
        )
        # 1 - distance is the similarity, which the authors passed for a distance.
        return np.asarray(method.fit(1 - distances_KK).labels_, np.int64)
