"""SCL: split a cluster in two when its mean update vanishes while its members' do not.

Source: Sattler, Mueller, Samek, Clustered Federated Learning, TNNLS 2021, arXiv:1910.01991, Algorithm 3.
The paper's bipartition, which minimises the largest similarity across the cut, is single linkage cut at
its last merge; complete linkage is the released code's and more robust on noisy groups. The cooldown is
the released code's too. Deviation: the epsilons, which the paper leaves to the user, are by default taken
from the run's own norms, so that they fit any model and learning rate.

Shapes: K members of one cluster.
"""

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt, model_validator

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings, select_moving
from fedgrid.algorithms.clustering.pooled_cosines import (
    CosineSettings,
    compute_clustering_distances,
    pool_cosines,
)
from fedgrid.algorithms.clustering.splits import split_positions
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, State, StepResult
from fedgrid.algorithms.contract.section import FirstRound
from fedgrid.algorithms.updates.source import Layout, Matrix, Rng
from fedgrid.algorithms.updates.updates import Updates

BIBTEX = r"""@article{sattler2021clustered,
  author = {Sattler, Felix and M{\"u}ller, Klaus-Robert and Samek, Wojciech},
  title = {Clustered Federated Learning: Model-Agnostic Distributed Multitask Optimization Under Privacy
    Constraints},
  journal = {IEEE Transactions on Neural Networks and Learning Systems},
  volume = {32},
  number = {8},
  pages = {3710--3722},
  year = {2021},
  eprint = {1910.01991},
  archiveprefix = {arXiv}
}"""

Halves = tuple[list[int], list[int]]
"""Positions of the members of the two halves of a cluster."""


LONGEST_UPDATE = "longest_update"
"""Name of the state's array with the largest norm of a client's update so far, float64, shape (1,)."""


class SattlerSettings(CosineSettings, FedOptSettings):
    """Settings of SCL: when a cluster is split, and how.

    All norms are Euclidean, over the entries of `similarity_over`.
    """

    epsilon_1: NonNegativeFloat | None = None
    """The norm of the mean update must be below this: the cluster has converged. None: `epsilon_1_share`."""
    epsilon_2: NonNegativeFloat | None = None
    """The largest norm of an update must be above this: its members have not. None: `epsilon_2_share`."""
    epsilon_1_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """epsilon_1 as a share of the median norm of the members' updates in this round."""
    epsilon_2_share: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """epsilon_2 as a share of the largest norm of any client's update so far in the run."""
    cooldown: Annotated[NonNegativeInt, FirstRound(later=1)] = 3
    """First rounds without a split."""
    linkage: Literal["single", "complete"] = "single"
    """`single` is the paper's cut. `complete` is the released code's, more robust on noisy groups."""
    gamma_max: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """A split must satisfy gamma_max < sqrt((1 - largest similarity across it) / 2); 0 switches it off."""

    omitted_defaults = ("epsilon_1_share", "epsilon_2_share")

    @model_validator(mode="after")
    def _shares_have_an_effect(self) -> Self:
        """Refuse a share that an epsilon given as a number makes ineffective."""
        for epsilon in ("epsilon_1", "epsilon_2"):
            name = f"{epsilon}_share"
            given = getattr(self, epsilon)
            share = getattr(self, name)
            if given is not None and share != type(self).model_fields[name].get_default():
                raise ValueError(
                    f"{name} = {share:g} has no effect beside {epsilon} = {given:g}; leave one of them out"
                )
        return self


class SattlerAsPublishedSettings(SattlerSettings):
    """The settings of the archived runs (the later paper's table lists others)."""

    similarity_over: Literal["parameters", "state"] = "state"
    epsilon_1: NonNegativeFloat = 0.35
    epsilon_2: NonNegativeFloat = 0.35
    cooldown: Annotated[NonNegativeInt, FirstRound(later=2)] = 20
    linkage: Literal["single", "complete"] = "complete"


class Sattler(FedOpt):
    """Recursive bipartition. Every cluster is considered in every round; a new one not before the next.

    A cluster with more than two usable members is split if the norm of its mean update is below epsilon_1 and
    the largest norm of a member's update above epsilon_2. The cut makes the largest similarity across it as
    small as possible.

    The default epsilons need neither labels nor a search. epsilon_1 measures whether clients agree: their
    mean is as long as they are where updates are alike, and shorter where groups pull apart. It is a share of
    the median, because one client whose training went astray would make any mean look like disagreement.
    epsilon_2 leaves clusters together that have all but stopped. The paper's rule, a tenth of the largest
    mean norm so far, is met too late in short runs. Epsilons as numbers depend on model and learning rate:
    `fedgrid analyse centralised epsilons` proposes some.

    Degenerate cases:

    - A cluster of one or two, or of members that are all alike, is not split.
    - A zero update has similarity 0 to all others.
    - Groups that share classes part late. Where groups swap labels, the one model has to settle first.
    - A group that has settled looks like one that disagrees: long runs may cut it.

    Absent clients: A split needs more than two members that are present. A client that was away joins later,
    one level of the tree of splits each time it is sampled.

    Memory: `longest_update`, the largest norm so far (float64, shape (1,)); with `pool_rounds` the sums of
    cosines.
    """

    settings: SattlerSettings

    def start_order_key(self) -> tuple[float, ...]:
        """Deviate from FedAvg after the cooldown.

        Stricter epsilons delay the first split more than a longer cooldown does.
        """
        settings = self.settings
        epsilon_1 = settings.epsilon_1_share if settings.epsilon_1 is None else settings.epsilon_1
        epsilon_2 = settings.epsilon_2_share if settings.epsilon_2 is None else settings.epsilon_2
        return (3.0, epsilon_2, -epsilon_1, settings.cooldown)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build FedOpt's state; no update has been seen."""
        return super().init(layout, num_clients, fresh, rng).keep(**{LONGEST_UPDATE: np.zeros(1)})

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Split each cluster that has stalled.

        The diagnostics hold the largest mean norm of a cluster and the largest norm of a client in this
        round, whether or not a split was possible, so that epsilons can be chosen from a plain run.

        Args:
            state: the state so far.
            round_index: the round, from 0.
            updates: the usable updates of this round.
            rng: not used.
        """
        if self.settings.pool_rounds:
            state = pool_cosines(state, select_moving(updates), standardise=self.settings.standardise)
        # Over the whole run, so that epsilon_2 does not shrink with the updates that it is compared with.
        longest = max(float(state.arrays[LONGEST_UPDATE][0]), float(updates.norms_K.max(initial=0.0)))
        split_state = state.keep(**{LONGEST_UPDATE: np.array([longest])})
        mean_norms = []
        max_norms = []
        # Clusters of the state before the round: one that is split now is considered again in the next round.
        for cluster in range(len(state.models)):
            part = updates.select(state.members(cluster))
            if not part.clients:
                continue
            mean_norms.append(part.mean_norm)
            max_norms.append(float(part.norms_K.max()))
            groups = self._find_halves(state, part, longest) if self.is_past_cooldown(round_index) else None
            if groups is not None:
                split_state = split_positions(split_state, cluster, part, groups)
        clustered = len(split_state.models) > len(state.models)
        return split_state, Diagnostics(
            clustered, max(mean_norms, default=None), max(max_norms, default=None)
        )

    def is_past_cooldown(self, round_index: int) -> bool:
        """Check whether the cooldown is over."""
        return round_index >= self.settings.cooldown

    def _find_halves(self, state: State, members: Updates, longest: float) -> Halves | None:
        """Find the halves, as positions, of a cluster that passes every test; None if one fails."""
        # Norms first: they need no second pass over the updates.
        epsilon_1, epsilon_2 = self.choose_epsilons(members, longest)
        has_stalled = members.mean_norm < epsilon_1 and members.norms_K.max() > epsilon_2
        if len(members.clients) <= 2 or not has_stalled:
            return None
        distances_KK = compute_clustering_distances(state, members, self.settings)
        # Members that are all alike: any cut would be arbitrary.
        if not distances_KK.any():
            return None
        groups = cut_last_merge(distances_KK, self.settings.linkage)
        # sqrt((1 - alpha) / 2) with alpha the largest cosine similarity across the groups.
        if 0 < self.settings.gamma_max >= np.sqrt(distances_KK[np.ix_(*groups)].min() / 2):
            return None
        return groups

    def choose_epsilons(self, members: Updates, longest: float) -> tuple[float, float]:
        """Choose both epsilons for these members; `longest` is the largest norm so far in the run."""
        epsilon_1 = self.settings.epsilon_1
        epsilon_2 = self.settings.epsilon_2
        if epsilon_1 is None:
            epsilon_1 = self.settings.epsilon_1_share * float(np.median(members.norms_K))
        if epsilon_2 is None:
            epsilon_2 = self.settings.epsilon_2_share * longest
        return epsilon_1, epsilon_2


class SattlerAsPublished(Sattler):
    """The OCFL authors' version, whose cooldown lasts a round longer: with 20, splits start in round 22.

    As published: Complete linkage, epsilons as numbers, norms over the whole state. All 16 runs on MNIST and
    Fashion-MNIST first split in round 22. On the ResNets epsilon_1 is below the norm of the BatchNorm
    counters alone (54 to 612), so that the 24 runs never split and are BNC. The later paper's table lists
    other epsilons; those of the ResNets come from L1 norms, far longer than the L2 norms that are tested.
    """

    def is_past_cooldown(self, round_index: int) -> bool:
        """Check whether the cooldown is over, counting as the authors do."""
        return round_index > self.settings.cooldown


def cut_last_merge(cosine_distances_KK: Matrix, method: str) -> Halves:
    """Cut a tree at its last merge: the two branches of `method` linkage, K >= 2; also if merges tie."""
    from scipy.cluster.hierarchy import linkage, to_tree
    from scipy.spatial.distance import squareform

    # By the tree, not by a height: of merges at equal heights a cut would undo several.
    tree = to_tree(linkage(squareform(cosine_distances_KK, checks=False), method))
    return sorted(tree.left.pre_order()), sorted(tree.right.pre_order())
