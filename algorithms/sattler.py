"""SCL: split a cluster in two when its mean update vanishes while its members' do not.

Source: Sattler, Mueller, Samek, Clustered Federated Learning, TNNLS 2021, arXiv:1910.01991, Algorithm 3.
The paper's bipartition, which minimises the largest similarity across the cut, is single linkage cut at
its last merge; complete linkage is the released code's and more robust on noisy groups. The cooldown is
the released code's too.

Shapes: K members of one cluster.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt

from fedgrid.algorithms.contract.base import Diagnostics, State
from fedgrid.algorithms.contract.updates import Matrix, Updates
from fedgrid.algorithms.fedopt import FedOpt, FedOptSettings, split_positions

Groups = tuple[list[int], list[int]]


class SattlerSettings(FedOptSettings):
    """When a cluster is split, and how. Rule of thumb: epsilon_1 a tenth of the largest mean norm."""

    epsilon_1: NonNegativeFloat = 0.35
    """The norm of the mean update must be below this: the cluster has converged."""
    epsilon_2: NonNegativeFloat = 1.0
    """The largest norm of an update must be above this: its members have not."""
    cooldown: NonNegativeInt = 20
    """First rounds without a split."""
    linkage: Literal["single", "complete"] = "single"
    gamma_max: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """A split must satisfy gamma_max < sqrt((1 - largest similarity across it) / 2); 0 switches it off."""


class SattlerAsPublishedSettings(SattlerSettings):
    """The settings of the archived runs (the later paper's table lists others)."""

    similarity_over: Literal["parameters", "state"] = "state"
    epsilon_2: NonNegativeFloat = 0.35
    linkage: Literal["single", "complete"] = "complete"


class Sattler(FedOpt):
    """Recursive bipartition. Every cluster is looked at every round; a new one not before the next."""

    settings: SattlerSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Stricter epsilons delay the first split more than a longer cooldown does."""
        settings = self.settings
        return (3.0, settings.epsilon_2, -settings.epsilon_1, settings.cooldown)

    def recluster(
        self, state: State, round_index: int, updates: Updates, rng: np.random.Generator
    ) -> tuple[State, Diagnostics]:
        """Split each cluster that has stalled.

        The diagnostics hold the largest mean norm of a cluster and the largest norm of a client in this
        round, whether or not a split was possible, so that epsilons can be chosen from a plain run.
        """
        divided, mean_norms, max_norms = state, [], []
        for cluster in range(len(state.models)):
            part = updates.select(state.members(cluster))
            if not part.clients:
                continue
            mean_norms.append(part.mean_norm)
            max_norms.append(float(part.norms_K.max()))
            groups = self._groups(part) if self.is_over(round_index) else None
            if groups is not None:
                divided = split_positions(divided, cluster, part, groups)
        clustered = len(divided.models) > len(state.models)
        return divided, Diagnostics(clustered, max(mean_norms, default=None), max(max_norms, default=None))

    def is_over(self, round_index: int) -> bool:
        """Return whether the cooldown is over."""
        return round_index >= self.settings.cooldown

    def _groups(self, members: Updates) -> Groups | None:
        """Return the halves, as positions, of a cluster that passes every test of a split."""
        if len(members.clients) <= 2 or not has_stalled(
            members, self.settings.epsilon_1, self.settings.epsilon_2
        ):
            return None
        distances_KK = members.cosine_distances_KK
        if not distances_KK.any():
            return None
        groups = bipartition(distances_KK, self.settings.linkage)
        if 0 < self.settings.gamma_max >= separation(distances_KK, groups):
            return None
        return groups


class SattlerAsPublished(Sattler):
    """The OCFL authors' version, whose cooldown lasts a round longer: with 20, splits start in round 22."""

    def is_over(self, round_index: int) -> bool:
        """Return whether the cooldown is over, counting as the authors do."""
        return round_index > self.settings.cooldown


def has_stalled(members: Updates, epsilon_1: float, epsilon_2: float) -> bool:
    """Return whether the mean update is short although a client's is long."""
    return members.mean_norm < epsilon_1 and bool(members.norms_K.max() > epsilon_2)


def bipartition(cosine_distances_KK: Matrix, method: str) -> Groups:
    """Return the two branches under the last merge of `method` linkage, K >= 2; also if merges tie."""
    from scipy.cluster.hierarchy import linkage, to_tree
    from scipy.spatial.distance import squareform

    tree = to_tree(linkage(squareform(cosine_distances_KK, checks=False), method))
    return sorted(tree.left.pre_order()), sorted(tree.right.pre_order())


def separation(cosine_distances_KK: Matrix, groups: Groups) -> float:
    """Return sqrt((1 - alpha) / 2) with alpha the largest cosine similarity across the groups."""
    return float(np.sqrt(cosine_distances_KK[np.ix_(*groups)].min() / 2))
