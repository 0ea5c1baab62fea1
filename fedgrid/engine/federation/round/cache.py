"""What a round needs of a cache of rounds that other runs have computed."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from fedgrid.algorithms.contract.aggregator import Aggregator
from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.contract.orders import Order
from fedgrid.algorithms.updates.source import Vector
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.federation.clients.client_round import ClientRound
from fedgrid.engine.federation.clients.messages import Memory, TrainTask
from fedgrid.engine.federation.clients.pool import Pool
from fedgrid.engine.federation.clients.stopwatch import Stopwatch


class OtherBits(Exception):
    """Clients have trained again and got other bits than those behind the cached results of the round."""


RoundCache: TypeAlias = Callable[
    [Sequence[TrainTask], Sequence[Vector], Mapping[int, Memory], Pool, int, Stopwatch], ClientRound
]
"""Makes, of what `ClientRound` takes, a round's work at the clients of which other runs may have done some.

Its methods raise `OtherBits` if clients that train again get other bits than those in the cache.
"""


def cache_means_of_old_partition(
    orders: Sequence[Order], before: State, after: State, updates: Updates, aggregate: Aggregator
) -> None:
    """Compute the means, or other aggregates, that runs need which keep the old partition.

    Only this run has the updates.
    Clusters that start from one model count as one: other runs have not parted their clients yet.
    """
    labels_K = before.labels_K
    if not all(order.candidates == (int(labels_K[order.client]),) for order in orders):
        return
    places = {id(model): place for place, model in enumerate(before.models)}
    old = updates.groups(np.array([places[id(before.models[label])] for label in labels_K]))
    if sorted(old.values()) != sorted(updates.groups(after.labels_K).values()):
        aggregate.of(updates, list(old.values()))
