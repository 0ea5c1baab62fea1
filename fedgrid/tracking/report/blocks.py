"""The sections of a data set in a grid's report, and within them of each number of clients."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from fedgrid.tracking import figures
from fedgrid.tracking.figures.curves import is_recorded
from fedgrid.tracking.report.page import Choice, Plate, Section
from fedgrid.tracking.scoring.cost import AS_USUAL, Terms
from fedgrid.tracking.scoring.run import AS_PUBLISHED
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables import clustering, personalisation
from fedgrid.tracking.tables.cells import split_name
from fedgrid.tracking.tables.cost import before_training, cost, has_messages
from fedgrid.tracking.tables.personalisation import disturbances
from fedgrid.tracking.tables.table import Table

CLUSTERS = "of the clusters' models"
"""Labels of the two conventions."""
LINES = "Lines: means over seeds; bands: their standard deviation (n - 1) to either side."


@dataclass(frozen=True)
class FigureKind:
    """A figure that each number of clients has."""

    label: str
    """Its name beside the alternatives."""
    name: str
    title: str
    caption: str
    draw: Callable[[Study], Figure]
    curve: str = ""
    """The curve without which there is nothing to draw; empty: another would be drawn in its place."""


SCORES = (
    FigureKind(
        "accuracy",
        "accuracy",
        "Accuracy by round",
        "Accuracy of the clusters' models, mean over clients: on the clients' own test sets (personalised), "
        f"and on the server's (generalised). {LINES}",
        partial(figures.per_round, kind="accuracy"),
    ),
    FigureKind(
        "F1",
        "f1",
        "F1 by round",
        "Macro F1 of the clusters' models, mean over clients: on the clients' own test sets (personalised), "
        f"and on the server's (generalised). {LINES}",
        partial(figures.per_round, kind="f1"),
    ),
    FigureKind(
        "fairness",
        "fairness",
        "Fairness by round",
        "Least accuracy of a cluster's model on the own test set of one of its clients; Jain's index of the "
        f"accuracies of all clients, 1 if all are equal. {LINES}",
        partial(figures.per_round, kind="fairness"),
    ),
    FigureKind(
        "global model",
        "global",
        "Accuracy of the global model by round",
        "Accuracy of the algorithm's global model: on the server's test set, and on the clients' own, mean "
        f"over clients. {LINES}",
        partial(figures.per_round, kind="global"),
        "global_accuracy",
    ),
)
PARTITIONS = (
    FigureKind(
        "ARI",
        "ari",
        "ARI by round",
        f"Adjusted Rand index of each round's partition. {LINES}",
        partial(figures.per_round, kind="ari"),
    ),
    FigureKind(
        "sizes of clusters",
        "sizes",
        "Sizes of clusters by round",
        "Number of clients in the smallest cluster; below, if there are any, of clients whose cluster has no "
        f"other client. {LINES}",
        partial(figures.per_round, kind="sizes"),
    ),
    FigureKind(
        "silhouette",
        "silhouette",
        "Silhouette by round",
        "Mean silhouette of each round's partition, on the distances that the algorithm uses; it needs no "
        f"hidden groups, and is missing for one cluster. {LINES}",
        partial(figures.per_round, kind="silhouette"),
        "silhouette",
    ),
)
TEMPERATURE = (
    FigureKind(
        "temperature",
        "temperature",
        "Temperature by round",
        "Half the root mean square of the cosine distances between the clients' updates. Markers: rounds "
        "of the first clustering.",
        figures.temperatures,
    ),
)
COST = (
    "Rounds, and bytes sent up and down, until a score first reaches the target: a dot for each run, bars at "
    "the medians."
)
GAP = "Mean over clients of the absolute difference between personalised"
GAPS = (
    FigureKind(
        CLUSTERS,
        "gap",
        "Learning gap by round",
        f"{GAP} and generalised accuracy, both of the clusters' models. {LINES}",
        partial(figures.per_round, kind="gap"),
        "learning_gap",
    ),
    FigureKind(
        "in loss",
        "gap-loss",
        "Learning gap in loss by round",
        f"{GAP} and generalised loss (cross-entropy), both of the clusters' models. {LINES}",
        partial(figures.per_round, kind="gap-loss"),
        "learning_gap_loss",
    ),
    FigureKind(
        AS_PUBLISHED,
        "gap-published",
        "Learning gap by round",
        f"{GAP} accuracy and accuracy of the local model on the server's test set (the notebooks' DIST). "
        f"{LINES}",
        partial(figures.per_round, kind="gap-published"),
        "published_learning_gap",
    ),
)
BY_ROUND = (SCORES, PARTITIONS, TEMPERATURE, GAPS)
"""The figures of a number of clients; those of one tuple are alternatives."""


def of_dataset(study: Study, terms: Terms = AS_USUAL, *, published: bool = False) -> Section:
    """Return the section of a study of one data set; `terms` are those of the cost of a target score.

    With `published` the published conventions come first where there are others too.
    """
    (dataset,) = study.datasets
    blocks = [study.of(clients=clients) for _, clients in study.blocks]
    whole = Section(
        f"{dataset}-all",
        f"{dataset}: all numbers of clients",
        items=(
            _in_order(
                (
                    ("first and last", clustering.rounds(study)),
                    (AS_PUBLISHED, clustering.published_rounds(study)),
                ),
                published,
            ),
            Choice(
                (
                    (CLUSTERS, personalisation.personalisation(study)),
                    (AS_PUBLISHED, personalisation.published_personalisation(study)),
                )
            ),
            *(table for table in (personalisation.definitions(study),) if len(table.columns) > 1),
            personalisation.fairness(study),
            *(table for table in (disturbances(study),) if table is not None),
            Choice(tuple(_segments(study, dataset))),
            *_communities(study, dataset),
        ),
    )
    return Section(dataset, dataset, sections=(*(_block(block, terms, published) for block in blocks), whole))


def _segments(study: Study, dataset: str) -> Iterator[tuple[str, Plate]]:
    for label, published in ((CLUSTERS, False), (AS_PUBLISHED, True)):
        yield (
            label,
            Plate(
                f"segments-{'published-' if published else ''}{dataset}",
                f"Generalisation and personalisation: {dataset}",
                "Segments from F1 on the server's test set to F1 on the clients' own test sets, "
                + ("in the published conventions (Figure 2)." if published else "of the clusters' models."),
                partial(figures.segments, study, published=published),
            ),
        )


def _communities(study: Study, dataset: str) -> Iterator[Choice]:
    """Yield the figure of communities beside the global model, if there is one."""
    if is_recorded(study, "global_accuracy"):
        yield Choice(
            tuple(
                (
                    label,
                    Plate(
                        f"communities-{'server-' if server else ''}{dataset}",
                        f"Communities beside the global model: {dataset}",
                        "Segments from the accuracy of the global model to that of the communities' models, "
                        f"in the last round, {label}.",
                        partial(figures.communities, study, server=server),
                    ),
                )
                for label, server in (("on their members' images", False), ("on the server's images", True))
            )
        )


def _block(study: Study, terms: Terms, published: bool) -> Section:
    ((dataset, clients),) = study.blocks
    name, title = f"{dataset}-{clients}", f"{dataset}, {clients} clients"
    tables = (
        ("last partition", clustering.clustering(study, final=True)),
        ("mean over rounds", clustering.clustering(study, final=False)),
        (AS_PUBLISHED, clustering.published_clustering(study)),
    )
    curves = (_alternatives(tuple(_plates(study, kinds, name, title))) for kinds in BY_ROUND)
    maps = Choice(tuple(_maps(study, name, title)))
    spent = Plate(
        f"cost-{name}",
        f"Cost of a target score: {title}",
        COST,
        partial(figures.cost_to_target, study, terms),
    )
    said = (before_training(study),) if has_messages(study) else ()
    items = (_in_order(tables, published), *curves, spent, cost(study, terms), *said, maps)
    return Section(name, title, items=items)


def _in_order(options: tuple[tuple[str, Table], ...], published: bool) -> Choice:
    """Return a choice that begins with the published conventions if the report is beside such numbers."""
    return Choice(tuple(sorted(options, key=lambda one: one[0] != AS_PUBLISHED)) if published else options)


def _alternatives(options: tuple[tuple[str, Plate], ...]) -> Plate | Choice:
    """Return a choice; a single figure, of which there is nothing to choose, by itself."""
    return Choice(options) if len(options) > 1 else options[0][1]


def _plates(study: Study, kinds: Sequence[FigureKind], name: str, title: str) -> Iterator[tuple[str, Plate]]:
    """Yield label and figure of the kinds that the runs have numbers for, of the first kind if none has."""
    shown = [kind for kind in kinds if not kind.curve or is_recorded(study, kind.curve)] or kinds[:1]
    for kind in shown:
        plate = Plate(
            f"{kind.name}-{name}", f"{kind.title}: {title}", kind.caption, partial(kind.draw, study)
        )
        yield kind.label, plate


def _maps(study: Study, name: str, title: str) -> Iterator[tuple[str, Plate]]:
    for split in study.splits:
        yield (
            split_name(split),
            Plate(
                f"clusters-{name}-{split}",
                f"Clusters by round: {title}, {split_name(split)}",
                "The cluster of each client by round, for the first seed; lines separate the hidden groups. "
                "A cluster has the colour of the group of the majority of its clients, and a shade of its "
                "own; grey: no majority.",
                partial(figures.cluster_maps, study.of(split=split)),
            ),
        )
