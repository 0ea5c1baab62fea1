"""The sections of a data set in a grid's report, and within them of each number of clients."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fedgrid.tracking import figures
from fedgrid.tracking.figures.curves import is_recorded
from fedgrid.tracking.names import AS_PUBLISHED
from fedgrid.tracking.report.page import Choice, PageSection, Plate
from fedgrid.tracking.scoring.cost import DEFAULT, Target
from fedgrid.tracking.scoring.measures import own_curves, words_of
from fedgrid.tracking.scoring.study import Study, split_name
from fedgrid.tracking.tables import clustering, personalisation
from fedgrid.tracking.tables.cost import before_training, cost, has_messages
from fedgrid.tracking.tables.table import Table

CLUSTERS = "of the clusters' models"
"""Label of the convention that is not `AS_PUBLISHED`."""
MOST_CURVES = 40
"""Clients that have a curve each."""
R2 = "personalised_r2"
"""A curve of runs that predict numbers alone."""
OF_CLASSES = ("accuracy", "f1", "fairness")
"""Figures that those have not."""
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
    """The curve without which it is left out; empty: it never is."""

    def plate(self, study: Study, name: str, title: str) -> Plate:
        """Return the figure of a study of one number of clients, `name` and `title`."""
        draw, caption = partial(figures.per_round, study, self.name), self.caption
        if self.name == "temperature":
            draw = partial(figures.temperatures, study)
        elif len({run.seed for run in study.finished}) > 1:
            caption += " Lines: means over seeds; bands: their standard deviation (n - 1) to either side."
        if any(run.stopped for run in study.finished):
            caption += " Runs that stopped early have no later rounds: means there are over the others."
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
            "R2",
            "r2",
            "R2",
            "R2 of the clusters' models, mean over clients: on the clients' own test sets (personalised), "
            "and on the server's (generalised).",
            R2,
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
        FigureKind(
            "learning gap",
            "gap",
            "Learning gap",
            f"{GAP} and generalised accuracy, both of the clusters' models.",
            "learning_gap",
        ),
        FigureKind(
            "gap in loss",
            "gap-loss",
            "Learning gap in loss",
            f"{GAP} and generalised loss (cross-entropy), both of the clusters' models.",
            "learning_gap_loss",
        ),
        FigureKind(
            f"gap {AS_PUBLISHED}",
            "gap-published",
            "Learning gap",
            f"{GAP} accuracy and accuracy of the local model on the server's test set (the notebooks' DIST).",
            "published_learning_gap",
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
        FigureKind(
            "temperature",
            "temperature",
            "Temperature",
            "Half the root mean square of the cosine distances between the clients' updates. Markers: rounds "
            "of the first clustering.",
        ),
    ),
)
"""The figures of a number of clients; those of one tuple are alternatives."""


def dataset_section(study: Study, target: Target = DEFAULT, *, published: bool = False) -> PageSection:
    """Return the section of a study of one data set; `target` is the score whose cost is shown.

    With `published` the published conventions come first where there are others too.
    """
    (dataset,) = study.datasets
    whole = tuple(_over_clients(study, dataset, published))
    blocks = [_block(study.of(clients=clients), target, published) for _, clients in study.blocks]
    if len(blocks) == 1:
        return PageSection(dataset, blocks[0].title, items=(*blocks[0].items, *whole))
    last = PageSection(f"{dataset}-all", f"{dataset}: all numbers of clients", items=whole)
    return PageSection(dataset, dataset, sections=(*blocks, last))


def _over_clients(study: Study, dataset: str, published: bool) -> Iterator[Table | Plate | Choice]:
    """Yield what all numbers of clients have together."""
    rounds = {"first and last": clustering.rounds(study), AS_PUBLISHED: clustering.published_rounds(study)}
    yield _order_options(rounds, published)
    yield from _communities(study, dataset)
    if is_recorded(study, R2):
        yield personalisation.predicted(study)
        return
    scores: dict[str, Table | Plate] = {
        CLUSTERS: personalisation.personalisation(study),
        AS_PUBLISHED: personalisation.published_personalisation(study),
        "fairness and sizes of clusters": personalisation.fairness(study),
    }
    if is_recorded(study, "personalised_auc"):
        scores["AUC and calibration"] = personalisation.probabilities(study)
    if len((definitions := personalisation.definitions(study)).columns) > 1:
        scores["by each paper's definition"] = definitions
    yield Choice((*scores.items(), *_segments(study, dataset)))
    if disturbances := personalisation.disturbances(study):
        yield disturbances


def _segments(study: Study, dataset: str) -> Iterator[tuple[str, Plate]]:
    for label, published in (("drawn", False), (f"drawn, {AS_PUBLISHED}", True)):
        conventions = "in the published conventions (Figure 2)." if published else "of the clusters' models."
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


def _block(study: Study, target: Target, published: bool) -> PageSection:
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
        partial(figures.cost_to_target, study, target),
    )
    maps = _maps(study, name, title)
    items = (
        *(_curves(study, kinds, name, title) for kinds in BY_ROUND),
        *([Choice(own)] if (own := tuple(_own_curves(study, name, title))) else []),
        Choice(maps, len(study.splits)) if len(maps) > 1 else maps[0][1],
        Choice((("cost of a target score", spent), ("as a table", cost(study, target)))),
        *([before_training(study)] if has_messages(study) else []),
        _order_options(tables, published),
    )
    return PageSection(name, title, items=items)


def _order_options(options: Mapping[str, Table], published: bool) -> Choice:
    """Return a choice that begins with the published conventions if the report is beside such numbers."""
    return Choice(tuple(sorted(options.items(), key=lambda one: published and one[0] != AS_PUBLISHED)))


def _curves(study: Study, kinds: Sequence[FigureKind], name: str, title: str) -> Choice:
    """Return the kinds that the runs have numbers for."""
    left_out = OF_CLASSES if is_recorded(study, R2) else ()
    shown = (
        kind
        for kind in kinds
        if kind.name not in left_out and (not kind.curve or is_recorded(study, kind.curve))
    )
    return Choice(tuple((kind.label, kind.plate(study, name, title)) for kind in shown))


def _own_curves(study: Study, name: str, title: str) -> Iterator[tuple[str, Plate]]:
    """Yield the curves of the numbers that algorithms declare of their own."""
    for curve in own_curves(study):
        caption = "As the algorithm declares it. Meaning: `fedgrid list algorithms NAME`."
        kind = FigureKind(words_of(curve), curve, words_of(curve).capitalize(), caption)
        yield kind.label, kind.plate(study, name, title)


def _maps(study: Study, name: str, title: str) -> tuple[tuple[str, Plate], ...]:
    """Return the map of clusters of each split, then, of a few clients, the curve of each."""
    maps, curves = [], []
    for split in study.splits:
        part, words = study.of(split=split), split_name(split)
        of_split = f", {words}" if len(study.splits) > 1 else ""
        plate = Plate(
            f"clusters-{name}-{split}",
            f"Clusters by round: {title}, {words}",
            "The cluster of each client by round, for the first seed; lines separate the hidden groups. A "
            "cluster has the colour of the group of the majority of its clients, and a shade of its own; "
            "grey: no majority.",
            partial(figures.cluster_maps, part),
        )
        maps.append((f"clusters{of_split}", plate))
        if not is_recorded(part, R2) and all(
            run.accuracy_RK.size and run.clients <= MOST_CURVES for run in part.finished
        ):
            plate = Plate(
                f"each-client-{name}-{split}",
                f"Accuracy of each client by round: {title}, {words}",
                "Accuracy of the model that a client is served on the client's own test set, for the first "
                "seed; a line has the colour of the client's hidden group. The numbers are in a run's "
                "clients.parquet, column personalised_accuracy.",
                partial(figures.client_curves, part),
            )
            curves.append((f"each client{of_split}", plate))
    return (*maps, *curves)
