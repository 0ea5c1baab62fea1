"""Accuracy by each paper's own definition, side by side: the same run has another number in every paper."""

from collections.abc import Mapping

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.measures import Measure, last_round, last_rounds
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import dataset_of, explained, rows_of_algorithms
from fedgrid.tracking.tables.table import Column, Table, bold_columns

DEFINITIONS: Mapping[str, tuple[Measure, ...]] = {
    "OCFL": (last_round("last round", "personalised_accuracy"),),
    "FLIS": (last_round("last local model", "last_local_accuracy"),),
    "Prigent": (
        last_rounds("asked, last 5", "asked_accuracy", 5),
        last_rounds("asked, last 20", "asked_accuracy", 20),
    ),
    "Bettinelli": (
        last_round("communities", "generalised_accuracy"),
        last_round("global model", "global_accuracy"),
        last_round("global, own images", "global_own_accuracy"),
    ),
}
"""Paper -> its scores."""
CAPTION = (
    "OCFL: the model that a client is served after the last round (its cluster's; adapted first, where the "
    "algorithm adapts, as Per-FedAvg does), on the client's own test set, mean over all clients. FLIS: each "
    "client's last local model, as it left its last training, mean over all clients that ever trained. "
    "Prigent: as OCFL, mean over the clients that a round asked, then over the last 5 rounds or 20. "
    "Bettinelli: the clusters' models, and the global model, on the server's test set; the global model on "
    "the clients' own. A definition that no run has numbers for is left out. Means over scenarios; best of a "
    "column in bold."
)


def definitions(study: Study) -> Table:
    """Return a row for each algorithm, and a column for each definition that any run has numbers for.

    Raises:
        ValueError: if the study has several data sets.
    """
    dataset = dataset_of(study)
    columns = [
        (paper, measure)
        for paper, known in DEFINITIONS.items()
        for measure in measures.recorded(study, known)
    ]
    rows = rows_of_algorithms(study, [measure for _, measure in columns])
    table = Table(
        f"definitions-{dataset}",
        f"Accuracy by each paper's definition: {dataset}",
        CAPTION,
        tuple(Column(measure.name, paper) for paper, measure in columns),
        bold_columns(rows, [True] * len(columns)) if columns else (),
        corner="algorithm",
    )
    return explained(table, study)
