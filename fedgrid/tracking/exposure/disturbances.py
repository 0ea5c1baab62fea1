"""Attackers and clients whose data move: whether the partition sets them apart, and what they cost others."""

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.measures import Measure, last_round, recorded
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import dataset_of, measures_table
from fedgrid.tracking.tables.table import Table

OF_FAULTS = {
    "apart": last_round("attackers apart", "attackers_apart"),
    "ARI": last_round("ARI of honest clients", "honest_ari"),
    "PA": last_round("PA of honest clients", "honest_personalised_accuracy"),
    "GA": last_round("GA of honest clients", "honest_generalised_accuracy"),
}
OF_DRIFT = {
    "in place": last_round("with their new group", "with_new_group"),
    "found": last_round("moved clients found", "moved_found"),
    "rounds": Measure("rounds until found", last_round("", "moved").of, highest=False, digits=1),
}
OF_ALL = {"ARI": measures.FINAL_ARI, "PA": measures.PA_LAST, "GA": measures.GA_LAST}
"""Heading -> measure."""


def disturbances(study: Study) -> Table | None:
    """Return scores of attackers, of honest clients and of moved ones, a row an algorithm; None of none.

    Raises:
        ValueError: if the study has several data sets.
    """
    special = recorded(study, (*OF_FAULTS.values(), *OF_DRIFT.values()))
    if not special:
        return None
    dataset = dataset_of(study)
    groups = {"all clients": OF_ALL, "attackers and honest clients": OF_FAULTS, "moved clients": OF_DRIFT}
    columns = {
        (group, name): measure
        for group, of_group in groups.items()
        for name, measure in of_group.items()
        if measure in (*OF_ALL.values(), *special)
    }
    return measures_table(
        study,
        f"disturbances-{dataset}",
        f"Attackers and clients whose data move: {dataset}",
        "Of the last round. Apart: share of the attackers whose cluster has no honest client; ARI, PA and GA "
        "beside it are of the honest clients alone. In place: share of the moved clients that sit with their "
        "new group, so that their cluster holds a larger share of it than of their old one; found: that have "
        "done so in some round; rounds: from the move until then, mean over those found. Means over "
        "scenarios; best of a column in bold.",
        columns,
    )
