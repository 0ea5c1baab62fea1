"""Scores of runs with attackers, with clients that change their group, or with clients that never train.

These are the sections `faults`, `drift` and `held_out` of a configuration. An attacker is *apart* if its
cluster has no honest client, as when it is alone. A moved client *sits with its new group* if its cluster
holds a larger share of the other clients of that group than of the other clients of its old one: with one
cluster for all, or one for each client, no moved client does. It is *found* in the first round after its move
in which it sits there. The old group is that of the first round, also of a client that moves twice.

Runs without such clients have none of these scores. Shapes: R rounds, K clients, H held-out
clients.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from fedgrid.tracking.arrays import Array, Score, compute_scores, mean_without_nan
from fedgrid.tracking.scoring.partitions import score_partitions

ATTACKER = "attacker"
"""The column of the records, 1 of an attacker and 0 of an honest client."""
Clients = Mapping[str, Array]
"""Columns of the records, each of shape (R, K)."""


def _average_honest(column: str) -> Callable[[Clients], Array]:
    """Build a function for the mean of a column over the honest clients."""
    return lambda clients: mean_without_nan(np.where(clients[ATTACKER] == 1, np.nan, clients[column]))


def _compute_honest_ari(clients: Clients) -> Array:
    """Compute the adjusted Rand index of each round over the honest clients."""
    # A client is an attacker for the whole run, so any one round names them all.
    honest_K = clients[ATTACKER][0] != 1
    parts = score_partitions(clients["cluster"][:, honest_K], clients["true_cluster"][:, honest_K])
    return np.array([part["ari"] for part in parts])


def compute_attackers_apart(labels_RK: ArrayLike, attacker_K: ArrayLike) -> Array:
    """Compute the share of the attackers whose cluster has no honest client, shape (R,); there is an
    attacker.
    """
    labels_RK, attacker_K = np.asarray(labels_RK), np.asarray(attacker_K, bool)
    apart_RK = [~np.isin(labels_K[attacker_K], labels_K[~attacker_K]) for labels_K in labels_RK]
    return np.asarray(np.mean(apart_RK, axis=1, dtype=np.float64))


FAULTS = (
    Score(
        "attackers_apart",
        "Share of the attackers whose cluster has no honest client.",
        lambda clients: compute_attackers_apart(clients["cluster"], clients[ATTACKER][0] == 1),
        heading="apart",
    ),
    Score(
        "honest_ari",
        "Adjusted Rand index of the partition and the hidden groups, attackers left out.",
        _compute_honest_ari,
        heading="honest\nARI",
    ),
    Score(
        "honest_personalised_accuracy",
        "`personalised_accuracy`, mean over the honest clients.",
        _average_honest("personalised_accuracy"),
        heading="honest\npers.",
    ),
    Score(
        "honest_generalised_accuracy",
        "`generalised_accuracy`, mean over the honest clients.",
        _average_honest("generalised_accuracy"),
    ),
)
"""Scores of a round with attackers, computed from `Clients`."""


DRIFT = (
    Score(
        "with_new_group",
        "Share of the moved clients that sit with their new group.",
        mean_without_nan,
    ),
    Score(
        "moved_found",
        "Share of the moved clients that have sat with their new group in some round since their move.",
        lambda sits_RK: mean_without_nan(np.where(np.isnan(sits_RK), np.nan, has_reached_new_group(sits_RK))),
        heading="moved,\nfound",
    ),
    Score(
        "moved",
        "Rounds from the move until a client sits with its new group, 0 if it does at once: mean over the "
        "moved clients that have been found.",
        lambda sits_RK: mean_without_nan(count_rounds_to_new_group(sits_RK)),
        heading="rounds",
    ),
)
"""Scores of the clients whose data have changed by a round, computed from `compare_groups`."""


HELD_OUT = (
    Score(
        "held_out_accuracy",
        "Accuracy on their own test sets of the clients that never train in the federation, each placed as a "
        "newcomer after the last round (`held_out`); mean over these clients.",
        mean_without_nan,
        "clients",
        heading="held\nout",
    ),
)
"""Scores of the clients that are held out, computed from their accuracies, shape (R, H). They are NaN but in
the last round, after which these clients are placed."""


def score_disturbances(clients: Clients, held_out_RH: Array) -> dict[str, Array]:
    """Compute the scores of attackers and held-out clients that the run has, by name, each of shape (R,).

    Those of moved clients need all rounds at once: `score_drift`.
    """
    scores: dict[str, Array] = compute_scores(HELD_OUT, held_out_RH) if held_out_RH.size else {}
    return scores | (compute_scores(FAULTS, clients) if ATTACKER in clients else {})


def score_drift(clients: Clients) -> dict[str, Array]:
    """Compute the scores of a run with moved clients, by name, each of shape (R,); they need all rounds."""
    labels_RK, truth_RK = clients["cluster"], clients["true_cluster"]
    has_moved = (truth_RK != truth_RK[0]).any()
    return compute_scores(DRIFT, compare_groups(labels_RK, truth_RK)) if has_moved else {}


def compare_groups(labels_RK: ArrayLike, truth_RK: ArrayLike) -> Array:
    """Compute, for each client that has moved, whether it sits with its new group: 1 or 0, shape (R, K).

    Clients that have not moved by a round are NaN in it.
    """
    labels_RK, truth_RK = np.asarray(labels_RK), np.asarray(truth_RK)
    sits_RK = np.full(labels_RK.shape, np.nan)
    for row, client in np.argwhere(truth_RK != truth_RK[0]):
        # The client itself is always in its own cluster, and would count for its new group.
        others_K = np.arange(labels_RK.shape[1]) != client
        cluster_mates_K = labels_RK[row] == labels_RK[row, client]
        groups = [truth_RK[row, client], truth_RK[0, client]]
        members = [cluster_mates_K[others_K & (truth_RK[row] == group)] for group in groups]
        new, old = (flags.mean() if len(flags) else 0.0 for flags in members)
        # Strictly more: one cluster for all holds every client of both groups, and has found nothing.
        sits_RK[row, client] = float(new > old)
    return sits_RK


def has_reached_new_group(sits_RK: Array) -> Array:
    """Check whether a client has sat with its new group by a round, shape (R, K)."""
    return np.asarray(np.maximum.accumulate(np.nan_to_num(sits_RK), axis=0) == 1)


def count_rounds_to_new_group(sits_RK: Array) -> Array:
    """Count the rounds from a client's move until it was found, shape (R, K); NaN before it is found."""
    has_reached_RK = has_reached_new_group(sits_RK)
    waited_RK = np.cumsum(~np.isnan(sits_RK) & ~has_reached_RK, axis=0)
    return np.where(has_reached_RK, waited_RK, np.nan)
