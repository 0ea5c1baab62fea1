"""Scores in tables of results on the terminal, by their names, with the headings of their columns."""

from collections.abc import Mapping, Set

from fedgrid.tracking.scoring.client_scores import CLIENTS, PREDICTED
from fedgrid.tracking.scoring.disturbances import DRIFT, FAULTS, HELD_OUT
from fedgrid.tracking.scoring.scores import OF_ROUNDS

RESULT_COLUMNS = {
    "clustering_round": "clust\nround",
    **{score.name: score.heading for score in OF_ROUNDS if score.heading},
}
"""Score -> heading. Personalised: a cluster's model on its clients' own test sets; generalised: on the
server's test set."""
OWN_COLUMNS = {score.name: score.heading for score in (*FAULTS, *DRIFT, *HELD_OUT) if score.heading}
"""The same of scores that only runs with attackers, moved or held-out clients have."""
OF_NUMBERS = {score.name: score.heading for score in PREDICTED if score.heading}
OF_CLASSES = frozenset(score.name for score in CLIENTS)
"""What runs have that predict numbers, and what others have."""
SUMMARY_COLUMNS = {
    name: heading for name, heading in RESULT_COLUMNS.items() if name not in ("clustering_round", "clusters")
}
"""Scores of which a summary shows the mean."""


def columns_for(scores: Set[str], columns: Mapping[str, str] = RESULT_COLUMNS) -> dict[str, str]:
    """Return score -> heading of `columns`, of runs with these scores.

    Where numbers are predicted, R2 stands in place of accuracy, F1 and what follows from them.
    """
    if not scores & OF_NUMBERS.keys():
        return dict(columns)
    return {**{name: text for name, text in columns.items() if name not in OF_CLASSES}, **OF_NUMBERS}
