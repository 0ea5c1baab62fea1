"""OCFL: cluster once, in the first round in which the clients' updates start to point apart.

Source: Zuziak, Pellungrini, Rinzivillo, One-Shot Clustering for Federated Learning, IEEE BigData 2024,
arXiv:2503.04231, and arXiv:2509.01587 (moving average). Follows the authors' code, not the text, on two
points: the temperature must rise strictly, and the first round never clusters (start value +inf).

Shapes: K clients of the federation.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, PositiveInt
from threadpoolctl import threadpool_limits

from fedgrid.algorithms.averaging.fedopt import FedOpt, FedOptSettings, select_moving
from fedgrid.algorithms.clustering.clusterers import NOISE, AnyClusterer, KMeans, group_by_labels
from fedgrid.algorithms.clustering.latecomers import regroup_clients
from fedgrid.algorithms.clustering.measures import compute_temperature
from fedgrid.algorithms.clustering.pooled_cosines import (
    CosineSettings,
    compute_clustering_distances,
    pool_cosines,
)
from fedgrid.algorithms.clustering.splits import split_positions
from fedgrid.algorithms.contract.base import Diagnostics, Fresh, State, StepResult
from fedgrid.algorithms.contract.checks import check_labels
from fedgrid.algorithms.contract.conditions import Conditions
from fedgrid.algorithms.contract.local_method import explain_averaged_models
from fedgrid.algorithms.contract.section import FirstRound
from fedgrid.algorithms.updates.source import Layout, Rng
from fedgrid.algorithms.updates.updates import Updates

BIBTEX = r"""@inproceedings{zuziak2024oneshot,
  author = {Zuziak, Maciej Krzysztof and Pellungrini, Roberto and Rinzivillo, Salvatore},
  title = {One-Shot Clustering for Federated Learning},
  booktitle = {IEEE International Conference on Big Data (BigData)},
  year = {2024},
  doi = {10.1109/BigData62323.2024.10825763},
  eprint = {2503.04231},
  archiveprefix = {arXiv}
}

@misc{zuziak2025oneshot,
  author = {Zuziak, Maciej Krzysztof and Pellungrini, Roberto and Rinzivillo, Salvatore},
  title = {One-Shot Clustering for Federated Learning Under Clustering-Agnostic Assumption},
  year = {2025},
  eprint = {2509.01587},
  archiveprefix = {arXiv}
}"""


class OcflSettings(CosineSettings, FedOptSettings):
    """Settings of OCFL: how, and how soon, it clusters.

    Args:
        clusterer: method that finds the groups; each has an algorithm of its own name.
        window: rounds of the temperature's moving average; 1 is the published switch.
        noise: place of clients that the clusterer calls noise: the nearest cluster, or one of their own.
        unclustered_consumes_shot: whether the one clustering is used up when the clusterer finds none (as
            published).
        few_shot: number of rises of the temperature at which clients are clustered; 1 is one-shot.
        recluster_every: rounds after which clients that are clustered are clustered again, whatever the
            temperature, so that those whose data have changed are found; None: never.

    Raises:
        ValueError: a key is unknown, or a value is impossible.

    Example:
        >>> import fedgrid
        >>> settings = fedgrid.OcflSettings(clusterer={"name": "hdbscan"}, window=3)
        >>> settings.clusterer
        HDBSCAN(name='hdbscan', min_cluster_share=0.2)
    """

    clusterer: AnyClusterer = KMeans()
    """Method that finds the groups; each has an algorithm of its own name."""
    window: Annotated[int, Field(ge=1), FirstRound(later=1)] = 1
    """Rounds of the temperature's moving average; 1 is the published switch."""
    noise: Literal["nearest", "residual"] = "nearest"
    """Place of clients that the clusterer calls noise: the nearest cluster, or one of their own."""
    unclustered_consumes_shot: bool = False
    """Whether the one clustering is used up when the clusterer finds none (as published)."""
    few_shot: PositiveInt = 1
    """Number of rises of the temperature at which clients are clustered; 1 is one-shot."""

    recluster_every: Annotated[PositiveInt | None, FirstRound(later=2)] = None
    """Rounds after which clients that are clustered are clustered again, whatever the temperature, so that
    those whose data have changed are found; None: never."""

    omitted_defaults = ("few_shot", "recluster_every")


class Ocfl(FedOpt):
    """One-shot clustering, with any clusterer.

    The temperature is half the root mean square of the pairwise cosine distances of a round's updates: 0 if
    all are parallel, 0.5 if all are orthogonal. It falls while the federation learns what is common. In the
    first round in which it rises, the clusterer gets the matrix of cosine distances; its groups train apart
    from that round on.

    `few_shot`, `recluster_every`, `centre`, `pool_rounds` and `standardise` are ours. With `few_shot` all
    clients are clustered again at each of the first rises; a new cluster starts from the mean of its members'
    models and moments. The next rise comes soon after the first one, because separated groups point apart.

    Degenerate cases:

    - Round 1 never clusters: a rise needs `window` + 1 temperatures. A round with fewer than two updates that
      are not zero has none.
    - Some rise always comes, also in a federation without groups; not if updates differ by rounding only, as
      those of clients with identical rows: the temperature is then 0.
    - If the clusterer finds nothing, the next rise is tried; if it finds one cluster, the shot is taken.
    - A client without a usable update, or with a zero one, joins the largest cluster.
    - A later shot sees the clients of its round only, and the absent follow the majority of their cluster: a
      small sample can lose a group.

    Absent clients: The temperature is of the updates that arrived, so it also moves with the sample. Clients
    that are away at the rise wait with the model before the split; the next time one is sampled, it joins the
    cluster with the least mean cosine distance to its members' updates at the split. With `few_shot` it waits
    for the cluster that most of the nearest part has joined.

    Memory: `temperatures` (float64, the last `window` + 1) and `shots_taken` (int64, shape (1,)); with
    `recluster_every` also `last_shot` (int64, shape (1,)), the index of its round.

    Raises:
        AttributeError: a hook sets an attribute of the algorithm.

    Example:
        >>> import fedgrid
        >>> import numpy as np
        >>> algorithm = fedgrid.Ocfl(fedgrid.OcflSettings(clusterer={"name": "kmeans", "num_clusters": 2}))
        >>> layout, rng = fedgrid.Layout(("weight",), ((2,),), 2), np.random.default_rng(0)
        >>> state = algorithm.init(layout, 4, lambda number: np.zeros(2, np.float32), rng)
        >>> alike = {client: np.float32([1, 0]) for client in range(4)}
        >>> apart = {**alike, 2: np.float32([0, 1]), 3: np.float32([0, 1])}
        >>> for round_index, vectors in enumerate((alike, apart)):
        ...     state, report = algorithm.step(state, round_index, fedgrid.Updates(vectors, layout), rng)
        >>> report.clustered, state.labels_K.tolist()
        (True, [0, 0, 1, 1])
    """

    settings: OcflSettings
    """Frozen settings, of this class or of one derived from it."""

    def problem(self, conditions: Conditions) -> str | None:
        """Refuse an aggregator of updates where a later shot averages models."""
        aggregate = self.settings.aggregate
        if aggregate.is_for_updates and (self.settings.few_shot > 1 or self.settings.recluster_every):
            return explain_averaged_models(aggregate, "with few_shot or recluster_every")
        return super().problem(conditions)

    def start_order_key(self) -> tuple[float, ...]:
        """Deviate from FedAvg in round 2 at the earliest: a rise needs two temperatures.

        A longer window delays it.
        """
        return (2.0, self.settings.window)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build the state of one cluster, with no shot taken.

        Args:
            layout: names and shapes of the tensors in a state vector.
            num_clients: K.
            fresh: draws initial models; `fresh(0)` is the one for all.
            rng: not used.
        """
        state = super().init(layout, num_clients, fresh, rng)
        return state.keep(temperatures=np.zeros(0), shots_taken=np.array([0]))

    def recluster(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Compute the temperature; at its first rise split the federation's only cluster.

        Called by `step` once a round. With `few_shot` further rises put all clients into new clusters: few
        shots are future work in section 6.2 of the journal paper; that a rise triggers them, and how they
        regroup, is ours. Clients without an update, or with a zero one (it has no direction), join the
        largest cluster. With fewer than two others there is no temperature in this round.

        Args:
            state: the state so far.
            round_index: the round, from 0.
            updates: the usable updates of this round, without those of latecomers.
            rng: passed to the clusterer, and to an aggregator that draws.

        Returns:
            The state with the new partition, if there was a shot, and the report.

        Raises:
            BrokenContract: the clusterer returned no integer for each client.
        """
        part = select_moving(updates)
        # Once all shots are taken no temperature is computed, which saves the products of each round.
        shots_taken = int(state.arrays["shots_taken"][0])
        every = self.settings.recluster_every
        last = state.arrays.get("last_shot")
        is_due = every is not None and last is not None and round_index >= int(last[0]) + every
        if (shots_taken >= self.settings.few_shot and not is_due) or len(part.clients) < 2:
            return state, Diagnostics()
        if self.settings.pool_rounds:
            state = pool_cosines(state, part, standardise=self.settings.standardise)
        # Temperatures are those of the paper, of updates as they are, whatever cosines the clusterer sees.
        latest = np.append(state.arrays["temperatures"], compute_temperature(part.cosine_distances_KK))
        state = state.keep(temperatures=latest[-self.settings.window - 1 :])
        if not (is_due or has_risen(latest.tolist(), self.settings.window)):
            return state, Diagnostics()
        state, diagnostics = self._cluster_clients(state, part, rng)
        if every is not None and diagnostics.clustered:
            state = state.keep(last_shot=np.array([round_index]))
        return state, diagnostics

    def _cluster_clients(self, state: State, updates: Updates, rng: Rng) -> StepResult:
        """Cluster the clients of this round, and take the shot if there are clusters."""
        distances_KK = compute_clustering_distances(state, updates, self.settings)
        # On one thread: sums of several would have other last bits on other machines.
        with threadpool_limits(limits=1):
            labels = self.settings.clusterer.fit(distances_KK, rng)
        labels = check_labels(self.settings.clusterer, "fit", labels, len(distances_KK))
        # The authors' switch was used up here, too; ours waits for a round that shows groups.
        if (labels == NOISE).all() and not self.settings.unclustered_consumes_shot:
            warning = f"{self.settings.clusterer.name} found no clusters: the next rise is tried"
            return state, Diagnostics(warnings=(warning,))
        groups = group_by_labels(labels, distances_KK, self.settings.noise)
        shots_taken = int(state.arrays["shots_taken"][0])
        # The first shot splits the only cluster, which latecomers can follow. Later ones may join clients of
        # different clusters, so that models are averaged.
        if shots_taken == 0:
            state = split_positions(state, 0, updates, groups)
        else:
            ids = [[updates.clients[position] for position in group] for group in groups]
            aggregate = self.settings.aggregate.seed_round(rng)
            state = regroup_clients(state, ids, updates.weights, aggregate)
        return state.keep(shots_taken=np.array([shots_taken + 1])), Diagnostics(clustered=True)


def has_risen(temperatures: Sequence[float], window: int) -> bool:
    """Check whether the moving average over `window` rounds has risen, strictly, in the last round.

    False until there are `window` + 1 temperatures, so never in the first round. With window 1 it is the
    published switch, T_t > T_{t-1}.
    """
    # The two windows share all rounds but one each, so their means compare as those two do: without
    # a sum, rounding cannot turn a tie into a rise.
    return len(temperatures) > window and bool(temperatures[-1] > temperatures[-1 - window])
