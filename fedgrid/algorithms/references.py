"""The two references for serving clients: no federation at all, and the hidden groups given.

`solo` is what a client reaches with its own images; a method that does worse harms its clients. `oracle` is
plain averaging within the hidden groups from round 1 on, the most that finding them can give. Neither is a
competitor: no server can run the second one, and the first one has no server. The reference for clustering is
`ward-told`.

Shapes: K clients of the federation.
"""

from dataclasses import replace

import numpy as np

from fedgrid.algorithms.averaging.fedopt import FedOpt
from fedgrid.algorithms.contract.base import Algorithm, Diagnostics, Fresh, Labels, State, StepResult, Traits
from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.updates.source import Layout, Rng
from fedgrid.algorithms.updates.updates import Updates


class Solo(Algorithm):
    """Every client trains a model of its own, in the rounds and with the steps of any other algorithm.

    All start from the initial model that the other algorithms share. Each client is a cluster by itself, and
    that partition is scored: no groups are mixed, all are cut up. An algorithm below it makes its clients
    worse off than no federation does.

    Sends: Nothing: `bytes_down` and `bytes_up` are 0, and `uplink` does nothing.

    Degenerate cases:

    - It keeps a model a client, in memory and in checkpoints: 2.5 GB for 30 ResNet-34.

    Absent clients: A client that is not sampled, or drops out, does not train in that round: as many local
    steps as in every other algorithm.
    """

    @property
    def traits(self) -> Traits:
        """Facts about the algorithm; clients send nothing."""
        return Traits(sends_updates=False)

    def init(self, layout: Layout, num_clients: int, fresh: Fresh, rng: Rng) -> State:
        """Build one model for each client, all equal."""
        return State((fresh(0),) * num_clients, np.arange(num_clients))

    def step(self, state: State, round_index: int, updates: Updates, rng: Rng) -> StepResult:
        """Move each client's model to where its training has ended."""
        return self.place(state, updates), Diagnostics()

    def place(self, state: State, updates: Updates) -> State:
        """Move each client's model to where its training has ended, in a round or once it is held out."""
        models = list(state.models)
        # Means of one client each would fill the round cache, and no other run needs them.
        for client, update_P in zip(updates.clients, updates.vectors(), strict=True):
            models[client] = models[client] + update_P
        return replace(state, models=tuple(models))


class Oracle(FedOpt):
    """FedOpt within each hidden group, which a simulation knows: what perfect clustering can give.

    Tables have references below the other rows. They are never the best of a column and in no test.

    Degenerate cases:

    - With one hidden group it is BNC, to the byte.

    Absent clients: A newcomer is in its group from the start.
    """

    def reveal(self, state: State, groups_K: Labels, before_K: Labels | None = None) -> State:
        """Split the federation into its hidden groups, all with the initial model.

        A client that moves later goes to the cluster of the clients that were in its new group before.
        """
        if before_K is None:
            groups = [np.flatnonzero(groups_K == group).tolist() for group in np.unique(groups_K)]
            return split(state, 0, groups)
        labels_K = state.labels_K.copy()
        for client in np.flatnonzero(groups_K != before_K):
            # A hidden group's number is not its cluster's: clients that were in the group before say which
            # cluster it is.
            neighbours = np.flatnonzero(before_K == groups_K[client])
            if len(neighbours):
                labels_K[client] = state.labels_K[neighbours[0]]
        return replace(state, labels_K=labels_K)
