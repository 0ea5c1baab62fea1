"""The sections of a data set in a grid's report, and within them of each number of clients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fedgrid.tracking import figures
from fedgrid.tracking.figures.curves import is_recorded
from fedgrid.tracking.names import AS_PUBLISHED
from fedgrid.tracking.report.page import Choice, Plate, Section
from fedgrid.tracking.scoring.cost import AS_USUAL, Terms
from fedgrid.tracking.scoring.study import Study, split_name
from fedgrid.tracking.tables import clustering, personalisation
from fedgrid.tracking.tables.cost import before_training, cost, has_messages
from fedgrid.tracking.tables.table import Table

CLUSTERS = "of the clusters' models"
"""Label of the convention that is not `AS_PUBLISHED`."""
GAP = "Mean over clients of the absolute difference between personalised"


@dataclass(frozen=True)
class FigureKind:
    """A figure by round that each number of clients has."""

    label: str
    """Its name beside the alternatives."""
    name: str
    """A key of `figures.curves.KINDS`, or `temperature`."""
    title: str
    caption: str
    curve: str = ""
    """The curve without which there is nothing to draw; empty: another would be drawn in its place."""

    def plate(self, study: Study, name: str, title: str) -> Plate:
        """Return the figure of a study of one number of clients, `name` and `title`."""
        lines = " Lines: means over seeds; bands: their standard deviation (n - 1) to either side."
        draw, caption = partial(figures.per_round, study, self.name), self.caption + lines
        if self.name == "temperature":
            draw, caption = partial(figures.temperatures, study), self.caption
        return Plate(f"{self.name}-{name}", f"{self.title} by round: {title}", caption, draw)


BY_ROUND = (
    (
        FigureKind(
            "accuracy",
            "accuracy",
            "Accuracy",
            "Accuracy of the clusters' models, mean over clients: on the clients' own test sets "
            "(personalised), and on the server's (generalised).",
        ),
        FigureKind(
            "F1",
            "f1",
            "F1",
            "Macro F1 of the clusters' models, mean over clients: on the clients' own test sets "
            "(personalised), and on the server's (generalised).",
        ),
        FigureKind(
            "fairness",
            "fairness",
            "Fairness",
            "Least accuracy of a cluster's model on the own test set of one of its clients; Jain's index of "
            "the accuracies of all clients, 1 if all are equal.",
        ),
        FigureKind(
            "global model",
            "global",
            "Accuracy of the global model",
            "Accuracy of the algorithm's global model: on the server's test set, and on the clients' own, "
            "mean over clients.",
            "global_accuracy",
        ),
    ),
    (
        FigureKind("ARI", "ari", "ARI", "Adjusted Rand index of each round's partition.", "ari"),
        FigureKind(
            "sizes of clusters",
            "sizes",
            "Sizes of clusters",
            "Number of clients in the smallest cluster; below, if there are any, of clients whose cluster "
            "has no other client.",
        ),
        FigureKind(
            "silhouette",
            "silhouette",
            "Silhouette",
            "Mean silhouette of each round's partition, on the distances that the algorithm uses; it needs "
            "no hidden groups, and is missing for one cluster.",
            "silhouette",
        ),
    ),
    (
        FigureKind(
            "temperature",
            "temperature",
            "Temperature",
            "Half the root mean square of the cosine distances between the clients' updates. Markers: rounds "
            "of the first clustering.",
        ),
    ),
    (
        FigureKind(
            CLUSTERS,
            "gap",
            "Learning gap",
            f"{GAP} and generalised accuracy, both of the clusters' models.",
            "learning_gap",
        ),
        FigureKind(
            "in loss",
            "gap-loss",
            "Learning gap in loss",
            f"{GAP} and generalised loss (cross-entropy), both of the clusters' models.",
            "learning_gap_loss",
        ),
        FigureKind(
            AS_PUBLISHED,
            "gap-published",
            "Learning gap",
            f"{GAP} accuracy and accuracy of the local model on the server's test set (the notebooks' DIST).",
            "published_learning_gap",
        ),
    ),
)
"""The figures of a number of clients; those of one tuple are alternatives."""


def dataset_section(study: Study, terms: Terms = AS_USUAL, *, published: bool = False) -> Section:
    """Return the section of a study of one data set; `terms` are those of the cost of a target score.

    With `published` the published conventions come first where there are others too.
    """
    (dataset,) = study.datasets
    rounds = {"first and last": clustering.rounds(study), AS_PUBLISHED: clustering.published_rounds(study)}
    scores = {
        CLUSTERS: personalisation.personalisation(study),
        AS_PUBLISHED: personalisation.published_personalisation(study),
    }
    definitions, disturbances = personalisation.definitions(study), personalisation.disturbances(study)
    whole = Section(
        f"{dataset}-all",
        f"{dataset}: all numbers of clients",
        items=(
            _order_options(rounds, published),
            Choice(tuple(scores.items())),
            *([definitions] if len(definitions.columns) > 1 else []),
            personalisation.fairness(study),
            *([disturbances] if disturbances else []),
            Choice(tuple(_segments(study, dataset))),
            *_communities(study, dataset),
        ),
    )
    blocks = (_block(study.of(clients=clients), terms, published) for _, clients in study.blocks)
    return Section(dataset, dataset, sections=(*blocks, whole))


def _segments(study: Study, dataset: str) -> Iterator[tuple[str, Plate]]:
    words = {CLUSTERS: "of the clusters' models.", AS_PUBLISHED: "in the published conventions (Figure 2)."}
    for label, conventions in words.items():
        published = label == AS_PUBLISHED
        plate = Plate(
            f"segments-{'published-' if published else ''}{dataset}",
            f"Generalisation and personalisation: {dataset}",
            f"Segments from F1 on the server's test set to F1 on the clients' own test sets, {conventions}",
            partial(figures.segments, study, published=published),
        )
        yield label, plate


def _communities(study: Study, dataset: str) -> Iterator[Choice]:
    """Yield the figure of communities beside the global model, if there is one."""
    plates = {
        label: Plate(
            f"communities-{'server-' if server else ''}{dataset}",
            f"Communities beside the global model: {dataset}",
            "Segments from the accuracy of the global model to that of the communities' models, in the last "
            f"round, {label}.",
            partial(figures.communities, study, server=server),
        )
        for label, server in (("on their members' images", False), ("on the server's images", True))
    }
    if is_recorded(study, "global_accuracy"):
        yield Choice(tuple(plates.items()))


def _block(study: Study, terms: Terms, published: bool) -> Section:
    ((dataset, clients),) = study.blocks
    name, title = f"{dataset}-{clients}", f"{dataset}, {clients} clients"
    tables = {
        "last partition": clustering.clustering(study, final=True),
        "mean over rounds": clustering.clustering(study, final=False),
        AS_PUBLISHED: clustering.published_clustering(study),
    }
    spent = Plate(
        f"cost-{name}",
        f"Cost of a target score: {title}",
        "Rounds, and bytes sent up and down, until a score first reaches the target: a dot for each run, "
        "bars at the medians.",
        partial(figures.cost_to_target, study, terms),
    )
    items = (
        _order_options(tables, published),
        *(_curves(study, kinds, name, title) for kinds in BY_ROUND),
        spent,
        cost(study, terms),
        *([before_training(study)] if has_messages(study) else []),
        Choice(tuple(_maps(study, name, title))),
    )
    return Section(name, title, items=items)


def _order_options(options: Mapping[str, Table], published: bool) -> Choice:
    """Return a choice that begins with the published conventions if the report is beside such numbers."""
    return Choice(tuple(sorted(options.items(), key=lambda one: published and one[0] != AS_PUBLISHED)))


def _curves(study: Study, kinds: Sequence[FigureKind], name: str, title: str) -> Plate | Choice:
    """Return the kinds that the runs have numbers for, else the first; several are a choice."""
    shown = [kind for kind in kinds if not kind.curve or is_recorded(study, kind.curve)] or kinds[:1]
    plates = tuple((kind.label, kind.plate(study, name, title)) for kind in shown)
    return Choice(plates) if len(plates) > 1 else plates[0][1]


def _maps(study: Study, name: str, title: str) -> Iterator[tuple[str, Plate]]:
    for split in study.splits:
        plate = Plate(
            f"clusters-{name}-{split}",
            f"Clusters by round: {title}, {split_name(split)}",
            "The cluster of each client by round, for the first seed; lines separate the hidden groups. A "
            "cluster has the colour of the group of the majority of its clients, and a shade of its own; "
            "grey: no majority.",
            partial(figures.cluster_maps, study.of(split=split)),
        )
        yield split_name(split), plate
