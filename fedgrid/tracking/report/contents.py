"""The sections, tables and figures of a grid's report."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations

from fedgrid.tracking import figures
from fedgrid.tracking.figures.curves import KINDS, FigureKind
from fedgrid.tracking.names import AS_PUBLISHED
from fedgrid.tracking.report.page import CaptionedFigure, Choice, Page, PageSection, add_suffix
from fedgrid.tracking.report.ranks import build_rank_diagram
from fedgrid.tracking.scoring import measures, statistics
from fedgrid.tracking.scoring.axes import (
    find_axes,
    format_setting,
    list_axis_values,
    select_along_axis,
    select_setting,
)
from fedgrid.tracking.scoring.cost import DEFAULT_TARGET, Target
from fedgrid.tracking.scoring.run import format_early_stops, format_validation_scores
from fedgrid.tracking.scoring.study import Study, format_split_name, replace_special_characters
from fedgrid.tracking.tables import clustering, comparison, personalisation, scenarios
from fedgrid.tracking.tables.axes import build_axis_table, build_sweep_table
from fedgrid.tracking.tables.cost import (
    build_cost_table,
    build_epsilon_table,
    build_messages_table,
    has_messages,
)
from fedgrid.tracking.tables.significance import build_effects_table, build_significance_table
from fedgrid.tracking.tables.table import Cell, Column, Row, Table

CONVENTIONS = """\
As published: the numbers that the papers' notebooks compute. Clustering scores are means over the first 50 \
rounds, also of longer runs; COM is homogeneity (the arguments of completeness exchanged); the AMI of \
OCFL-HDB is a copy of its ARI; the clustering round is the last one in which a label changed, even if \
clusters were only renamed; F1 is over the union of true and predicted classes; generalisation is of the \
local models before aggregation, in round 1 of the initial model.

All other numbers are what their names say: of all rounds or of the last one; both homogeneity and \
completeness; the first round in which the algorithm decided on a partition; F1 over the classes in the test \
set; generalisation of the clusters' models.

Scores are averaged over the seeds of a scenario first, and all scenarios have the same weight. A mean over \
fewer runs than the grid has shows their number; a cell without any result is empty."""

CLUSTERS = "of the clusters' models"
"""Label of the convention that is not `AS_PUBLISHED`."""
MAX_CURVES = 40
"""Largest number of clients with a curve each."""
R2 = "personalised_r2"
"""A curve of runs that predict numbers alone."""
CLASS_FIGURES = ("accuracy", "f1", "fairness")
"""Figures that runs which predict numbers do not have."""
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


def build_report_page(
    study: Study,
    *,
    other: Study | None = None,
    published: bool = False,
    target: Target = DEFAULT_TARGET,
    papers: Sequence[PageSection] = (),
    analyses: Sequence[PageSection] = (),
) -> Page:
    """Build the report of a grid.

    Args:
        study: the grid.
        other: another grid that it is compared with; None by default.
        published: whether figures and tables have the published numbers too (default False).
        target: the score whose cost is shown.
        papers: sections on papers, shown at the beginning.
        analyses: sections on analyses of the runs.
    """
    build_section = partial(_build_dataset_section, target=target, published=published or study.is_archived)
    # From the whole grid to single scenarios: a reader who stops after the overview has the main result.
    sections = [
        _build_overview(study),
        *_build_axes_section(study),
        *_build_privacy_section(study),
        *_build_own_numbers_section(study),
        *_build_harm_section(study),
        *([_build_unfinished_section(study)] if study.unfinished else []),
        *papers,
        *([_build_comparison_section(study, other)] if other else []),
        *(
            # A section for each combination of the further axes, whose values go into all names: two files
            # of one name would overwrite each other.
            add_suffix(build_section(select_setting(part, setting)), format_setting(setting))
            for part in (study.with_values(dataset=dataset) for dataset in study.datasets)
            for setting in part.settings
        ),
        *analyses,
        *([_build_temperature_section(study)] if len(study.scenarios) > 1 else []),
        PageSection("scenarios", "Every scenario", items=(scenarios.build_scenarios_table(study),)),
        PageSection("conventions", "Conventions", CONVENTIONS),
    ]
    return Page(f"Report of {study.name}", _list_facts(study), tuple(sections))


def _list_facts(study: Study) -> tuple[tuple[str, str], ...]:
    """List the facts for the head of the page."""
    seeds = sorted({run.seed for run in study.runs})
    rounds = sorted({run.rounds for run in study.runs})
    return (
        ("runs", f"{len(study.finished)} of {len(study.runs)} finished"),
        *([("source", "the OCFL authors' archive")] if study.is_archived else []),
        ("scenarios", str(len(study.scenarios))),
        ("data sets", ", ".join(study.datasets)),
        ("algorithms", ", ".join(study.algorithms)),
        ("seeds", ", ".join(map(str, seeds))),
        ("rounds", ", ".join(map(str, rounds))),
        ("training", study.trained_line.removeprefix("Trained: ")),
        *([("scored on", line)] if (line := format_validation_scores(study.finished)) else []),
        *(
            [("stopped early", line.partition(": ")[2])]
            if (line := format_early_stops(study.finished))
            else []
        ),
        *([("names in papers", study.names_line.split(": ")[1])] if study.names_line else []),
        *((axis, ", ".join(list_axis_values(study, axis))) for axis in find_axes(study)),
        *(("note", note) for note in study.notes),
    )


def _build_overview(study: Study) -> PageSection:
    """Build the overview: the main scores, then ranks, p-values and effects if there are tests."""
    personalised, generalised = measures.choose_f1_measures(study)
    scores = (personalised, measures.FINAL_ARI, measures.MEAN_ARI, generalised)
    compared = [(measure.name, statistics.compare_algorithms(study, measure)) for measure in scores]
    tested = [(name, result) for name, result in compared if result.pairs]
    tables = [scenarios.overview(study)]
    if len(study.datasets) > 1:
        # With one data set the overview's own column has these numbers.
        tables.append(clustering.build_exactly_right_table(study))
    if not tested:
        # Ranks over a few scenarios are no more than the table's own.
        return PageSection("overview", "Overview", " ".join(compared[0][1].remarks), tuple(tables))
    return PageSection(
        "overview",
        "Overview",
        items=(
            *tables,
            Choice(tuple((name, build_rank_diagram(name, result)) for name, result in tested)),
            Choice(tuple((name, build_significance_table(result)) for name, result in tested)),
            Choice(tuple((name, build_effects_table(result)) for name, result in tested)),
        ),
    )


def _build_axes_section(study: Study) -> Iterator[PageSection]:
    """Yield a section with a table and a figure for each further axis of the grid, none without one."""
    items: list[Table | CaptionedFigure] = []
    several = len({run.seed for run in study.finished}) > 1
    bands = "; bands reach from the least to the greatest mean of a seed" if several else ""
    for axis in find_axes(study):
        plate = CaptionedFigure(
            f"axis-{replace_special_characters(axis)}",
            f"Scores by {axis}",
            f"Means over the scenarios that were run with a value, counted in the table{bands}.",
            partial(figures.over_axis, study, axis),
        )
        items += [build_axis_table(study, axis), plate]
    if items:
        yield PageSection("axes", "Axes", items=(*items, *_build_sweeps(study)))


def _build_privacy_section(study: Study) -> Iterator[PageSection]:
    """Yield a section on the cost of privacy, if any run has noise."""
    if measures.select_recorded(study, (measures.EPSILON,)):
        plate = CaptionedFigure(
            "over-epsilon",
            "Scores over epsilon",
            "A point for each setting of the grid; means and bands as in the figures of axes. Level: an "
            "algorithm whose clients send nothing.",
            partial(figures.over_epsilon, study),
        )
        yield PageSection("privacy", "Privacy", items=(build_epsilon_table(study), plate))


def _build_own_numbers_section(study: Study) -> Iterator[PageSection]:
    """Yield a table of the numbers that algorithms declare of their own, if any run has one."""
    if own := [*map(measures.recorded_number, measures.list_own_curves(study))]:
        yield PageSection(
            "own-numbers",
            "Numbers of algorithms' own",
            items=(scenarios.build_own_numbers_table(study, own),),
        )


def _build_harm_section(study: Study) -> Iterator[PageSection]:
    """Yield a section on clients that do worse than without the algorithm, if there are runs to compare."""
    if table := scenarios.build_harm_table(study):
        yield PageSection("harm", "Harm", items=(table,))


def _build_sweeps(study: Study) -> Iterator[Choice]:
    """Yield figures and tables over two axes, for each data set and pair, in both orders."""
    for dataset in study.datasets:
        part = study.with_values(dataset=dataset)
        for pair in combinations(find_axes(part), 2):
            orders = [
                (axis, by)
                # A setting that only some algorithms have may leave the other axis with a single value.
                for axis, by in (pair, pair[::-1])
                if find_axes(select_along_axis(select_along_axis(part, axis), by))
            ]
            plates = (
                CaptionedFigure(
                    f"sweep-{replace_special_characters(axis)}-by-{replace_special_characters(by)}-{dataset}",
                    f"Scores by {axis} and {by}: {dataset}",
                    f"A line for each value of {by}; means and bands as in the figures of one axis.",
                    partial(figures.sweep, part, axis, by),
                )
                for axis, by in orders
            )
            tables = (build_sweep_table(part, axis, by) for axis, by in orders)
            labels = [f"over {axis}" for axis, _ in orders]
            yield Choice(tuple(zip(labels, plates, strict=True)))
            yield Choice(tuple(zip(labels, tables, strict=True)))


def _build_unfinished_section(study: Study) -> PageSection:
    """Build the section of the runs without a result, and their states."""
    rows = tuple(
        Row(run.name, tuple(map(Cell, (run.algorithm, str(run.seed), run.lacking))))
        for run in study.unfinished
    )
    table = Table(
        f"lacking-{replace_special_characters(study.name)}",
        f"Runs without a result: {study.name}",
        f"{len(rows)} of {len(study.runs)} runs are not finished; no number in this report includes them.",
        tuple(map(Column, ("algorithm", "seed", "state"))),
        rows,
        corner="run",
    )
    return PageSection(
        f"lacking-{replace_special_characters(study.name)}", f"Not finished: {study.name}", items=(table,)
    )


def _build_comparison_section(one: Study, other: Study) -> PageSection:
    """Build the section that compares two grids."""
    return PageSection(
        "beside", f"{one.name} beside {other.name}", items=comparison.build_comparison_tables(one, other)
    )


def _build_temperature_section(study: Study) -> PageSection:
    """Build the section of mean temperatures over scenarios."""
    kinds = [("raw", "as recorded", False, False), ("normalised", "each run scaled to 0..1", True, False)]
    if len(study.datasets) > 1:
        # Temperatures of different models have different scales: only scaled ones have a mean over data
        # sets.
        kinds.append(("all", "all data sets, each run scaled to 0..1", True, True))
    plates = {
        label: CaptionedFigure(
            f"temperature-{name}",
            f"Temperature, {label}",
            "Mean over the scenarios with its 95 % interval (Figures 3 and 4), of all data sets together in "
            "the rounds that all have. Dashed: mean rounds in which the OCFL algorithms cluster.",
            partial(figures.temperature_bands, study, normalised=normalised, together=together),
        )
        for name, label, normalised, together in kinds
    }
    return PageSection("temperature", "Temperature", items=(Choice(tuple(plates.items())),))


def _build_dataset_section(
    study: Study, target: Target = DEFAULT_TARGET, *, published: bool = False
) -> PageSection:
    """Build the section of a study of one data set; `target` is the score whose cost is shown.

    With `published` the published conventions come first where there are others too.
    """
    (dataset,) = study.datasets
    shared_items = tuple(_build_dataset_items(study, dataset, published))
    blocks = [
        _build_block_section(study.with_values(clients=clients), target, published)
        for _, clients in study.blocks
    ]
    if len(blocks) == 1:
        return PageSection(dataset, blocks[0].title, items=(*blocks[0].items, *shared_items))
    last = PageSection(f"{dataset}-all", f"{dataset}: all numbers of clients", items=shared_items)
    return PageSection(dataset, dataset, sections=(*blocks, last))


def _build_dataset_items(
    study: Study, dataset: str, published: bool
) -> Iterator[Table | CaptionedFigure | Choice]:
    """Yield the tables and figures of all numbers of clients together."""
    rounds = {
        "first and last": clustering.build_rounds_table(study),
        AS_PUBLISHED: clustering.build_published_rounds_table(study),
    }
    yield _order_options(rounds, published)
    yield from _build_communities(study, dataset)
    if study.has(R2):
        # Runs that predict numbers have none of the scores below.
        yield personalisation.build_predictions_table(study)
        return
    scores: dict[str, Table | CaptionedFigure] = {
        CLUSTERS: personalisation.build_personalisation_table(study),
        AS_PUBLISHED: personalisation.build_published_personalisation_table(study),
        "fairness and sizes of clusters": personalisation.build_fairness_table(study),
    }
    if study.has("personalised_auc"):
        scores["AUC and calibration"] = personalisation.build_probabilities_table(study)
    # A single definition would repeat a score of the other tables.
    if len((definitions := personalisation.build_definitions_table(study)).columns) > 1:
        scores["by each paper's definition"] = definitions
    yield Choice((*scores.items(), *_build_segments(study, dataset)))
    if disturbances := personalisation.build_disturbances_table(study):
        yield disturbances


def _build_segments(study: Study, dataset: str) -> Iterator[tuple[str, CaptionedFigure]]:
    """Yield the figures of segments, in both conventions, with their labels."""
    for label, published in (("drawn", False), (f"drawn, {AS_PUBLISHED}", True)):
        conventions = "in the published conventions (Figure 2)." if published else "of the clusters' models."
        plate = CaptionedFigure(
            f"segments-{'published-' if published else ''}{dataset}",
            f"Generalisation and personalisation: {dataset}",
            f"Segments from F1 on the server's test set to F1 on the clients' own test sets, {conventions}",
            partial(figures.segments, study, published=published),
        )
        yield label, plate


def _build_communities(study: Study, dataset: str) -> Iterator[Choice]:
    """Yield the figure of communities against the global model, if there is one."""
    plates = {
        label: CaptionedFigure(
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


def _build_block_section(study: Study, target: Target, published: bool) -> PageSection:
    """Build the section of one data set and number of clients."""
    ((dataset, clients),) = study.blocks
    name, title = f"{dataset}-{clients}", f"{dataset}, {clients} clients"
    tables = {
        "last partition": clustering.build_clustering_table(study, final=True),
        "mean over rounds": clustering.build_clustering_table(study, final=False),
        AS_PUBLISHED: clustering.published_clustering(study),
    }
    spent = CaptionedFigure(
        f"cost-{name}",
        f"Cost of a target score: {title}",
        "Rounds, and bytes sent up and down, until a score first reaches the target: a dot for each run, "
        "bars at the medians.",
        partial(figures.cost_to_target, study, target),
    )
    maps = _build_maps(study, name, title)
    items = (
        *(_build_curves(study, kinds, name, title) for kinds in BY_ROUND),
        *([Choice(own)] if (own := tuple(_build_own_curves(study, name, title))) else []),
        # The maps of clusters come first, one for each split; curves of single clients are drawn only with
        # all figures.
        Choice(maps, len(study.splits)) if len(maps) > 1 else maps[0][1],
        Choice((("cost of a target score", spent), ("as a table", build_cost_table(study, target)))),
        *([build_messages_table(study)] if has_messages(study) else []),
        _order_options(tables, published),
    )
    return PageSection(name, title, items=items)


def _order_options(options: Mapping[str, Table], published: bool) -> Choice:
    """Build a choice, with the published conventions first if the report has published numbers."""
    return Choice(tuple(sorted(options.items(), key=lambda one: published and one[0] != AS_PUBLISHED)))


def _build_curves(study: Study, kinds: Sequence[str], name: str, title: str) -> Choice:
    """Build a choice of the kinds of curves that the runs have numbers for."""
    # Without classes there is no accuracy, of which fairness is a function too.
    left_out = CLASS_FIGURES if study.has(R2) else ()
    shown = {kind: FIGURES[kind] for kind in kinds if kind not in left_out}
    return Choice(
        tuple(
            (
                figure.label,
                _build_round_figure(study, kind, name, f"{figure.title} by round: {title}", figure.caption),
            )
            for kind, figure in shown.items()
            if not figure.is_optional or study.has(figure.rows[0].curve)
        )
    )


def _build_own_curves(study: Study, name: str, title: str) -> Iterator[tuple[str, CaptionedFigure]]:
    """Yield the curves of the numbers that algorithms declare of their own."""
    caption = "As the algorithm declares it. Meaning: `fedgrid list algorithms NAME`."
    for curve in measures.list_own_curves(study):
        words = measures.format_heading(curve)
        yield (
            words,
            _build_round_figure(study, curve, name, f"{words.capitalize()} by round: {title}", caption),
        )


def _build_round_figure(study: Study, kind: str, name: str, title: str, caption: str) -> CaptionedFigure:
    """Build the figure of one kind of curves, with what its lines are in the caption."""
    draw = partial(figures.per_round, study, kind)
    if kind == TEMPERATURE:
        draw = partial(figures.temperatures, study)
    elif len({run.seed for run in study.finished}) > 1:
        caption += " Lines: means over seeds; bands: their standard deviation (n - 1) to either side."
    if any(run.stopped for run in study.finished):
        caption += " Runs that stopped early have no later rounds: means there are over the others."
    return CaptionedFigure(f"{kind}-{name}", title, caption, draw)


def _build_maps(study: Study, name: str, title: str) -> tuple[tuple[str, CaptionedFigure], ...]:
    """Build the map of clusters of each split, then, of a few clients, the curve of each."""
    maps, curves = [], []
    for split in study.splits:
        part, words = study.with_values(split=split), format_split_name(split)
        split_suffix = f", {words}" if len(study.splits) > 1 else ""
        plate = CaptionedFigure(
            f"clusters-{name}-{split}",
            f"Clusters by round: {title}, {words}",
            "The cluster of each client by round, for the first seed; lines separate the hidden groups. A "
            "cluster has the colour of the group of the majority of its clients, and a shade of its own; "
            "grey: no majority.",
            partial(figures.cluster_maps, part),
        )
        maps.append((f"clusters{split_suffix}", plate))
        if not part.has(R2) and all(
            run.accuracy_RK.size and run.clients <= MAX_CURVES for run in part.finished
        ):
            plate = CaptionedFigure(
                f"each-client-{name}-{split}",
                f"Accuracy of each client by round: {title}, {words}",
                "Accuracy of the model that a client is served on the client's own test set, for the first "
                "seed; a line has the colour of the client's hidden group. The numbers are in a run's "
                "clients.parquet, column personalised_accuracy.",
                partial(figures.client_curves, part),
            )
            curves.append((f"each client{split_suffix}", plate))
    return (*maps, *curves)
