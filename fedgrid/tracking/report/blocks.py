"""The sections of a data set in a grid's report, and within them of each number of clients."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from fedgrid.tracking import figures
from fedgrid.tracking.figures.curves import KINDS, FigureKind
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
TEMPERATURE = "temperature"
FIGURES = {
    **KINDS,
    TEMPERATURE: FigureKind(
        "temperature",
        "Temperature",
        "Half the root mean square of the cosine distances between the clients' updates. Markers: rounds of "
        "the first clustering.",
        (),
        is_optional=False,
    ),
}
BY_ROUND = (
    ("accuracy", "r2", "f1", "fairness", "global", "gap", "gap-loss", "gap-published"),
    ("ari", "sizes", "silhouette", TEMPERATURE),
)
"""The figures by round of a number of clients; those of one tuple are alternatives."""


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
    if study.has(R2):
        yield personalisation.predicted(study)
        return
    scores: dict[str, Table | Plate] = {
        CLUSTERS: personalisation.personalisation(study),
        AS_PUBLISHED: personalisation.published_personalisation(study),
        "fairness and sizes of clusters": personalisation.fairness(study),
    }
    if study.has("personalised_auc"):
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
    if study.has("global_accuracy"):
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


def _curves(study: Study, kinds: Sequence[str], name: str, title: str) -> Choice:
    """Return the kinds that the runs have numbers for."""
    left_out = OF_CLASSES if study.has(R2) else ()
    shown = {kind: FIGURES[kind] for kind in kinds if kind not in left_out}
    return Choice(
        tuple(
            (figure.label, _by_round(study, kind, name, f"{figure.title} by round: {title}", figure.caption))
            for kind, figure in shown.items()
            if not figure.is_optional or study.has(figure.rows[0].curve)
        )
    )


def _own_curves(study: Study, name: str, title: str) -> Iterator[tuple[str, Plate]]:
    """Yield the curves of the numbers that algorithms declare of their own."""
    caption = "As the algorithm declares it. Meaning: `fedgrid list algorithms NAME`."
    for curve in own_curves(study):
        words = words_of(curve)
        yield words, _by_round(study, curve, name, f"{words.capitalize()} by round: {title}", caption)


def _by_round(study: Study, kind: str, name: str, title: str, caption: str) -> Plate:
    draw = partial(figures.per_round, study, kind)
    if kind == TEMPERATURE:
        draw = partial(figures.temperatures, study)
    elif len({run.seed for run in study.finished}) > 1:
        caption += " Lines: means over seeds; bands: their standard deviation (n - 1) to either side."
    if any(run.stopped for run in study.finished):
        caption += " Runs that stopped early have no later rounds: means there are over the others."
    return Plate(f"{kind}-{name}", title, caption, draw)


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
        if not part.has(R2) and all(
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
