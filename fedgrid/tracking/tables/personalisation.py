"""Tables of how well the models serve the clients: personalisation, generalisation, fairness, definitions.

Where some clients attack or their data move, a table shows whether the partition sets these apart, and what
they cost the others.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isnan

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.measures import Measure, last_round, mean_over_rounds
from fedgrid.tracking.scoring.study import Study, require_one_value
from fedgrid.tracking.tables.cells import (
    StudyColumn,
    build_algorithms_table,
    build_measure_column,
    describe_coverage,
)
from fedgrid.tracking.tables.table import Table

# The headings of Figure 2 and of the text; PBA is in the authors' results only.
PUBLISHED = {
    "PF1": "published_pf1",
    "GF1": "published_gf1",
    "PA": "published_pa",
    "GA": "published_ga",
    "gap": "published_learning_gap",
    "PBA": "personalised_balanced_accuracy",
}
RIGHT = {
    "pers. F1": "personalised_f1",
    "gen. F1": "generalised_f1",
    "pers. acc.": "personalised_accuracy",
    "gen. acc.": "generalised_accuracy",
    "gap": "learning_gap",
    "pers. recall": "personalised_balanced_accuracy",
}
PROBABILITY_SCORES = {
    "pers. AUC": "personalised_auc",
    "gen. AUC": "generalised_auc",
    "pers. ECE": "personalised_ece",
    "gen. ECE": "generalised_ece",
}
NUMBER_SCORES = {
    "pers. R2": "personalised_r2",
    "median R2": "personalised_r2_median",
    "pooled R2": "personalised_r2_pooled",
    "gen. R2": "generalised_r2",
    "pers. MSE": "personalised_loss",
    "gen. MSE": "generalised_loss",
}
MEAN, LAST = "mean over rounds", "last round"
SPANS: Mapping[str, Callable[[str, str], Measure]] = {MEAN: mean_over_rounds, LAST: last_round}
"""Group of columns -> the measure of a curve."""


def build_published_personalisation_table(study: Study) -> Table:
    """Build the table of scores in the conventions of Figure 2 of the OCFL journal paper."""
    return _build_dataset_table(
        study,
        PUBLISHED,
        "personalisation-published",
        "Personalisation and generalisation, as published",
        "Published conventions. PF1 and PA: F1 and accuracy of the cluster's model on the client's own test "
        "set. GF1 and GA: F1 and accuracy of the locally trained model, before aggregation, on the server's "
        "test set; in round 1 of the initial model. F1 is over the union of true and predicted classes. gap: "
        "mean over clients of |PA - GA|. PBA: mean recall over the client's own classes. Means over clients "
        f"and scenarios; best of a column in bold. {describe_missing_tests(study)}".rstrip(),
    )


def build_personalisation_table(study: Study) -> Table:
    """Build the table of scores of the clusters' models, F1 over the classes in the test set."""
    return _build_dataset_table(
        study,
        RIGHT,
        "personalisation",
        "Personalisation and generalisation",
        "Of the cluster's model after aggregation, personalised on the client's own test set, generalised on "
        "the server's. F1 and recall are means over the classes in the test set; gap: |pers. acc. - gen. "
        "acc.|. Means over clients and scenarios; best of a column in bold.",
    )


def build_probabilities_table(study: Study) -> Table:
    """Build the table of AUC and expected calibration error of the clusters' models."""
    return _build_dataset_table(
        study,
        PROBABILITY_SCORES,
        "probabilities",
        "AUC and calibration",
        "Of the cluster's model after aggregation, personalised on the client's own test set, generalised on "
        "the server's. AUC: area under the ROC curve of a class against the rest, mean over the classes in "
        "the test set; none of a test set of one class. ECE: expected calibration error, 15 bins (Guo et al. "
        "2017). Means over clients and scenarios; best of a column in bold."
        f" {describe_coverage(study, 'personalised_auc')}".rstrip(),
    )


def build_predictions_table(study: Study) -> Table:
    """Build the table of R2 and mean squared error of the clusters' models, of numbers to predict."""
    return _build_dataset_table(
        study,
        NUMBER_SCORES,
        "predicted",
        "Predicted numbers",
        "Of the cluster's model after aggregation, personalised on the client's own test set, generalised on "
        "the server's. R2: 1 minus the squared errors over those of the test set's mean; none of equal "
        "numbers. Median R2: of the clients' personalised R2. Pooled R2: over all clients' own test sets as "
        "one set. MSE: mean squared error, in units of the variance of the numbers that clients train on. "
        "Means over clients, but for these two, and scenarios; best of a column in bold."
        f" {describe_coverage(study, 'personalised_r2')}".rstrip(),
    )


def describe_missing_tests(study: Study) -> str:
    """Describe which runs lack the tests behind the published GF1, GA and gap; empty without any."""
    runs = study.finished
    untested = sum(isnan(result.last(PUBLISHED["GF1"])) for result in runs)
    # Such a run has last values, but no published means, which are over all rounds.
    tested_once = sum(isnan(result.mean(PUBLISHED["GF1"])) for result in runs) - untested
    return " ".join(
        f"No {what} of {count} of {len(runs)} finished runs: they {cause} (set evaluation.local_server: "
        "true)."
        for count, what, cause in (
            (untested, "GF1, GA and gap", "did not test local models on the server's set"),
            (tested_once, "means of GF1, GA and gap", "tested local models there in the last round only"),
        )
        if count
    )


def _build_dataset_table(
    study: Study, curves: Mapping[str, str], name: str, title: str, caption: str
) -> Table:
    """Build a table of curves with a section for each data set, and one for all if there are several."""
    parts = {dataset: study.with_values(dataset=dataset) for dataset in study.datasets}
    if len(parts) > 1:
        # With one data set this would repeat the section above it.
        parts["all scenarios"] = study
    name = f"{name}-{study.datasets[0]}" if len(parts) == 1 else name
    return build_algorithms_table(study, name, title, caption, _build_span_columns(curves), parts)


def _build_span_columns(curves: Mapping[str, str]) -> Iterator[StudyColumn]:
    """Build the columns of curves by their headings: their means over the rounds, then their last values."""
    for span, build_measure in SPANS.items():
        yield from (
            build_measure_column(build_measure(name, curve), group=span) for name, curve in curves.items()
        )


FAIRNESS = {"worst client": "worst_client_accuracy", "Jain": "jain_index", "gap in loss": "learning_gap_loss"}
"""Heading -> curve of `tracking.scoring.scores.compute_curves`."""


def build_fairness_table(study: Study) -> Table:
    """Build the table of clients served worst, and the sizes of clusters, with a row for each algorithm.

    Raises:
        ValueError: if the study has several data sets.
    """
    (dataset,) = require_one_value(study, "dataset")
    return build_algorithms_table(
        study,
        f"fairness-{dataset}",
        f"Fairness and sizes of clusters: {dataset}",
        "Worst client: least accuracy of a cluster's model on the own test set of one of its clients. Worst "
        "tenth: mean accuracy of the tenth of the clients (rounded up) with the lowest. Jain: "
        "Jain's index of the clients' accuracies, 1 if all are equal. Gap in loss: mean over clients of the "
        "absolute difference of the loss on the own and on the server's test set, in nats. Of the last "
        "partition: its clusters, the clients of the smallest, and the clients whose cluster has no other. "
        "Means over scenarios; best of a column in bold.",
        (
            # The worst of many clients is worse by chance alone: grids of different sizes are compared by a
            # tenth.
            *_build_span_columns({"worst tenth": "worst_tenth_accuracy", **FAIRNESS}),
            build_measure_column(measures.CLUSTERS, "clusters", "last partition"),
            build_measure_column(measures.SMALLEST_CLUSTER, "smallest", "last partition"),
            build_measure_column(measures.CLIENTS_ALONE, "clients alone", "last partition"),
        ),
    )


DEFINITIONS: Mapping[str, tuple[Measure, ...]] = {
    "OCFL": (last_round("last round", "personalised_accuracy"),),
    "FLIS": (last_round("last local model", "last_local_accuracy"),),
    # The paper averages over 5 rounds on MNIST and CIFAR-10, and over 20 on FEMNIST.
    "Prigent": (
        mean_over_rounds("asked, last 5", "asked_accuracy", last=5),
        mean_over_rounds("asked, last 20", "asked_accuracy", last=20),
    ),
    "Bettinelli": (
        last_round("communities", "generalised_accuracy"),
        last_round("global model", "global_accuracy"),
        last_round("global, own images", "global_own_accuracy"),
    ),
}
"""Paper -> its definitions of accuracy."""
DEFINITIONS_CAPTION = (
    "OCFL: the model that a client is served after the last round (its cluster's; adapted first, where the "
    "algorithm adapts, as Per-FedAvg does), on the client's own test set, mean over all clients. FLIS: each "
    "client's last local model, as it left its last training, mean over all clients that ever trained. "
    "Prigent: as OCFL, mean over the clients that a round sampled, then over the last 5 rounds or 20. "
    "Bettinelli: the clusters' models, and the global model, on the server's test set; the global model on "
    "the clients' own. A definition that no run has numbers for is left out. Means over scenarios; best of a "
    "column in bold."
)


def build_definitions_table(study: Study) -> Table:
    """Build a table with a row for each algorithm and a column for each definition that any run recorded.

    Raises:
        ValueError: if the study has several data sets.
    """
    (dataset,) = require_one_value(study, "dataset")
    return build_algorithms_table(
        study,
        f"definitions-{dataset}",
        f"Accuracy by each paper's definition: {dataset}",
        DEFINITIONS_CAPTION,
        (
            build_measure_column(measure, group=paper)
            for paper, own_scores in DEFINITIONS.items()
            for measure in measures.select_recorded(study, own_scores)
        ),
    )


DISTURBANCES: Mapping[str, tuple[Measure, ...]] = {
    "attackers and honest clients": (
        last_round("apart", "attackers_apart"),
        last_round("ARI", "honest_ari"),
        last_round("pers. acc.", "honest_personalised_accuracy"),
        last_round("gen. acc.", "honest_generalised_accuracy"),
    ),
    "moved clients": (
        last_round("in place", "with_new_group"),
        last_round("found", "moved_found"),
        last_round("rounds", "moved", highest=False, digits=1),
    ),
    "held-out clients": (last_round("pers. acc.", "held_out_accuracy"),),
}
"""Kind of clients -> their scores."""
ALL_CLIENTS_SCORES = (
    last_round("ARI", "ari"),
    last_round("pers. acc.", "personalised_accuracy"),
    last_round("gen. acc.", "generalised_accuracy"),
)


def build_disturbances_table(study: Study) -> Table | None:
    """Build the table of attackers, honest, moved and held-out clients; None without such clients.

    Raises:
        ValueError: if the study has several data sets.
    """
    columns = [
        build_measure_column(measure, group=clients)
        for clients, own_scores in DISTURBANCES.items()
        for measure in measures.select_recorded(study, own_scores)
    ]
    # Before the check for one data set: a grid without such clients may have several.
    if not columns:
        return None
    (dataset,) = require_one_value(study, "dataset")
    return build_algorithms_table(
        study,
        f"disturbances-{dataset}",
        f"Attackers, clients whose data move, held-out clients: {dataset}",
        "Of the last round. Apart: share of the attackers whose cluster has no honest client; ARI and "
        "accuracies beside it are of the honest clients alone. In place: share of the moved clients that sit "
        "with their new group, so that their cluster holds a larger share of it than of their old one; "
        "found: that have done so in some round; rounds: from the move until then, mean over those found. "
        "Held-out clients never train, and are in no other number of the report. "
        "Means over scenarios; best of a column in bold.",
        (*(build_measure_column(measure, group="all clients") for measure in ALL_CLIENTS_SCORES), *columns),
    )
