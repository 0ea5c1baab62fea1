"""Personalisation and generalisation of the models: PF1, GF1, accuracies, learning gap and recall."""

from collections.abc import Mapping
from itertools import product
from math import isnan

from fedgrid.tracking.scoring.measures import Measure, last_round, mean_over_rounds
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import explained, over_scenarios
from fedgrid.tracking.tables.table import Column, Row, Table, bold_columns

PUBLISHED = {
    "PF1": "published_pf1",
    "GF1": "published_gf1",
    "PA": "published_pa",
    "GA": "published_ga",
    "gap": "published_learning_gap",
    "PBA": "personalised_balanced_accuracy",
}
RIGHT = {
    "PF1": "personalised_f1",
    "GF1": "generalised_f1",
    "PA": "personalised_accuracy",
    "GA": "generalised_accuracy",
    "gap": "learning_gap",
    "PBA": "personalised_balanced_accuracy",
}
MEAN, LAST = "mean over rounds", "last round"
SPANS = {MEAN: mean_over_rounds, LAST: last_round}
EVERYTHING = "all scenarios"


def published_personalisation(study: Study) -> Table:
    """Return the scores in the conventions of Figure 2 of the OCFL journal paper."""
    return _table(
        study,
        PUBLISHED,
        "personalisation-published",
        "Personalisation and generalisation, as published",
        "Published conventions. PF1 and PA: F1 and accuracy of the cluster's model on the client's own test "
        "set. GF1 and GA: F1 and accuracy of the locally trained model, before aggregation, on the server's "
        "test set; in round 1 of the initial model. F1 is over the union of true and predicted classes. gap: "
        f"mean over clients of |PA - GA|. {untested(study)}".rstrip(),
    )


def personalisation(study: Study) -> Table:
    """Return the scores of the clusters' models, F1 over the classes in the test set."""
    return _table(
        study,
        RIGHT,
        "personalisation",
        "Personalisation and generalisation",
        "All scores are of the cluster's model after aggregation: F1 and accuracy on the client's own test "
        "set (PF1, PA) and on the server's (GF1, GA). F1 is over the classes in the test set. gap: mean over "
        "clients of |PA - GA|.",
    )


def untested(study: Study) -> str:
    """Return a sentence on runs without the tests behind the published GF1, GA and gap; empty without any."""
    gf1 = last_round("GF1", PUBLISHED["GF1"])
    count = sum(isnan(gf1.of(result)) for result in study.finished)
    if not count:
        return ""
    return (
        f"No GF1, GA and gap of {count} of {len(study.finished)} finished runs: they did not test local "
        "models on the server's set (evaluation.local_server: true)."
    )


def _table(study: Study, curves: Mapping[str, str], name: str, title: str, caption: str) -> Table:
    measures = {
        (span, heading): measure_of(span, heading, curve)
        for span, (heading, curve) in product(SPANS, curves.items())
    }
    parts = [(dataset, study.of(dataset=dataset)) for dataset in study.datasets]
    if len(parts) > 1:
        parts.append((EVERYTHING, study))
    rows = [
        Row(
            algorithm,
            tuple(over_scenarios(part.of(algorithm=algorithm), measure) for measure in measures.values()),
            section,
            is_reference=algorithm in study.references,
        )
        for section, part in parts
        for algorithm in part.algorithms
    ]
    table = Table(
        f"{name}-{study.datasets[0]}" if len(parts) == 1 else name,
        title,
        f"{caption} PBA: mean recall over the client's own classes. Means over clients and scenarios; best "
        "of a column in bold.",
        tuple(Column(heading, span) for span, heading in measures),
        bold_columns(rows, [measure.highest for measure in measures.values()]),
        corner="algorithm",
        part="data set",
    )
    return explained(table, study)


def measure_of(span: str, heading: str, curve: str) -> Measure:
    """Return the measure of a curve over one of `SPANS`; neither a small nor a large gap is better."""
    return SPANS[span](heading, curve, highest=None if heading == "gap" else True)
