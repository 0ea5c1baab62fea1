"""How evenly a grid's models serve the clients, and how small the clusters are."""

from collections.abc import Mapping
from itertools import product

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.measures import Measure, last_round, mean_over_rounds
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import dataset_of, explained, rows_of_algorithms
from fedgrid.tracking.tables.table import Column, Table, bold_columns

CURVES = {"worst client": "worst_client_accuracy", "Jain": "jain_index", "gap in loss": "learning_gap_loss"}
"""Heading -> curve of `tracking.scoring.scores.curves`."""
WORST_TENTH = {"worst tenth": "worst_tenth_accuracy"}
"""The same, which the table of all scenarios does not have."""
SPANS = {"mean over rounds": mean_over_rounds, "last round": last_round}
SIZES = {
    "clusters": measures.CLUSTERS,
    "smallest": measures.SMALLEST_CLUSTER,
    "clients alone": measures.CLIENTS_ALONE,
}


def fairness(study: Study) -> Table:
    """Return scores of the clients served worst, and the sizes of the clusters, one row per algorithm.

    Raises:
        ValueError: if the study has several data sets.
    """
    dataset = dataset_of(study)
    columns = _columns()
    rows = rows_of_algorithms(study, list(columns.values()))
    table = Table(
        f"fairness-{dataset}",
        f"Fairness and sizes of clusters: {dataset}",
        "Worst client: least accuracy of a cluster's model on the own test set of one of its clients. Worst "
        "tenth: mean accuracy of the tenth of the clients (rounded up) with the lowest. Jain: "
        "Jain's index of the clients' accuracies, 1 if all are equal. Gap in loss: mean over clients of the "
        "absolute difference of the loss on the own and on the server's test set, in nats. Of the last "
        "partition: its clusters, the clients of the smallest, and the clients whose cluster has no other. "
        "Means over scenarios; best of a column in bold.",
        tuple(Column(name, group) for group, name in columns),
        bold_columns(rows, [measure.highest for measure in columns.values()]),
        corner="algorithm",
    )
    return explained(table, study)


def _columns() -> Mapping[tuple[str, str], Measure]:
    """Return group and heading -> measure."""
    scores = {
        (span, name): of_span(name, curve, highest=None if name == "gap in loss" else True)
        for (span, of_span), (name, curve) in product(SPANS.items(), (WORST_TENTH | CURVES).items())
    }
    return scores | {("last partition", name): measure for name, measure in SIZES.items()}
