"""Our numbers next to the published ones, in the published conventions, with reasons as footnotes."""

from dataclasses import replace
from functools import partial

from fedgrid.tracking.papers.ocfl import numbers, reasons
from fedgrid.tracking.papers.shared.paper import Paper, add_reference, build_reference_table
from fedgrid.tracking.scoring.measures import PUBLISHED_CLUSTERING, Measure
from fedgrid.tracking.scoring.study import Study, format_split_name
from fedgrid.tracking.tables.cells import StudyColumn, over_scenarios, restrict_cell
from fedgrid.tracking.tables.clustering import build_published_cell, build_published_round_cell
from fedgrid.tracking.tables.personalisation import LAST, MEAN, PUBLISHED, SPANS, describe_missing_tests
from fedgrid.tracking.tables.table import NONE, Cell, Table, format_fixed

FAR_SCORE = 0.1
FAR_ROUNDS = 5
MEASURES = {
    "pf1_mean": (MEAN, "PF1"),
    "gf1_mean": (MEAN, "GF1"),
    "pa_mean": (MEAN, "PA"),
    "gap_mean": (MEAN, "gap"),
    "pf1_last": (LAST, "PF1"),
    "gf1_last": (LAST, "GF1"),
    "pa_last": (LAST, "PA"),
    "ga_last": (LAST, "GA"),
    "pba_last": (LAST, "PBA"),
}
"""Column of the published numbers -> span of rounds and heading."""


def build_published_tables(study: Study) -> tuple[Table, ...]:
    """Build Table 1, Table 2 and the personalisation of every data set with published numbers.

    An algorithm is compared with the row of `Run.published`; one without such a row is left out.
    """
    scenarios = {scenario for scenario, _ in numbers.read_clustering()}
    rows = {row for _, row in numbers.read_clustering()}
    compared = study.only(run for run in study.runs if run.scenario in scenarios and run.published in rows)
    by_dataset = (compared.with_values(dataset=dataset) for dataset in compared.datasets)
    return (
        *(
            _build_clustering_table(compared.with_values(dataset=dataset, clients=clients))
            for dataset, clients in compared.blocks
        ),
        *(
            table
            for part in by_dataset
            for table in (_build_rounds_table(part), _build_personalisation_table(part))
        ),
    )


def _build_clustering_table(study: Study) -> Table:
    """Build Table 1 of one data set and number of clients, next to the published one."""
    ((dataset, clients),) = study.blocks
    columns = (
        StudyColumn(
            heading,
            format_split_name(split),
            reasons.find_column_notes(heading),
            cell=restrict_cell(partial(_build_score_cell, heading=heading), split=split),
        )
        for split in study.splits
        for heading in PUBLISHED_CLUSTERING
    )
    return build_reference_table(
        study,
        f"against-table1-{dataset}-{clients}",
        f"Table 1 beside the published one: {dataset}, {clients} clients",
        _format_caption(study, "–: one cluster in all rounds.", "first-50", "runs", "cnn"),
        columns,
        reasons.format_notes(reasons.FAR_SCORE, archived=study.is_archived),
        reasons.find_row_notes,
    )


def _format_caption(study: Study, words: str, *keys: str) -> str:
    """Format the conventions, words on a table, and the reasons that apply to all of it."""
    whose = "Archive" if study.is_archived else "Ours"
    sentences = reasons.format_sentences(study.datasets[0], *keys, archived=study.is_archived)
    return " ".join([f"{whose} / published, both in the published conventions.", words, *sentences])


def _build_score_cell(study: Study, heading: str) -> Cell:
    """Build a cell of Table 1, rounded like the published one before printing."""
    measure = PUBLISHED_CLUSTERING[heading]
    cell = build_published_cell(study, measure)
    if not study.runs:
        return cell
    printed = Measure(
        measure.name,
        lambda result: numbers.round_as_published(measure.formula(result)),
        measure.highest,
        measure.digits,
    )
    run = study.runs[0]
    row = numbers.read_clustering()[run.scenario, str(run.published)]
    scores = {"RAND": row.published_rand, "AMI": row.published_ami, "COM": row.published_com}
    text = format_fixed(scores[heading], measure.digits) if any(scores.values()) else NONE
    # The value stays in full digits; only the text is rounded twice, as the authors did.
    cell = replace(cell, text=build_published_cell(study, printed).text)
    cell = add_reference(cell, scores[heading], text, far=FAR_SCORE)
    return reasons.add_cell_notes(cell, run, heading) if cell.text else cell


def _build_rounds_table(study: Study) -> Table:
    """Build Table 2 of one data set, next to the published one."""
    columns = (
        StudyColumn(
            format_split_name(split),
            f"{clients} clients",
            cell=restrict_cell(_build_round_cell, clients=clients, split=split),
        )
        for _, clients, split, *_ in study.scenarios
    )
    return build_reference_table(
        study,
        f"against-table2-{study.datasets[0]}",
        f"Table 2 beside the published one: {study.datasets[0]}",
        _format_caption(study, "–: the labels never change.", "runs", "cnn"),
        columns,
        reasons.format_notes(reasons.FAR_ROUND, archived=study.is_archived),
        reasons.find_row_notes,
    )


def _build_round_cell(study: Study) -> Cell:
    """Build a cell of Table 2 with the published round, a dash for round 1."""
    cell = build_published_round_cell(study)
    if not study.runs:
        return cell
    run = study.runs[0]
    number = numbers.read_clustering()[run.scenario, str(run.published)].published_round
    # A round is no better for being early.
    return add_reference(cell, number, str(number) if number > 1 else NONE, far=FAR_ROUNDS, highest=None)


def _build_personalisation_table(study: Study) -> Table:
    """Build the personalisation of one data set, next to the published means."""
    (dataset,) = study.datasets
    # The published means are over all scenarios: ours shows how many of them it is over.
    expected = numbers.SCENARIOS * len({run.seed for run in study.runs})

    def build_column(key: str, span: str, heading: str) -> StudyColumn:
        """Build the column of one measure."""
        measure = SPANS[span](heading, PUBLISHED[heading])

        def build_cell(own: Study) -> Cell:
            """Build the cell of one algorithm."""
            printed = numbers.read_personalisation()[dataset, str(own.runs[0].published)][key]
            mean, text = (
                over_scenarios(own, measure, expected=expected),
                format_fixed(printed, measure.digits),
            )
            return add_reference(mean, printed, text, far=FAR_SCORE, highest=measure.highest)

        return StudyColumn(heading, span, reasons.find_column_notes(heading), cell=build_cell)

    words = (
        f"Means over the {numbers.SCENARIOS} published scenarios. Names as in the table of personalisation. "
        f"PBA is recomputed from the authors' results. {describe_missing_tests(study)}"
    )
    return build_reference_table(
        study,
        f"against-personalisation-{dataset}",
        f"Personalisation and generalisation beside the published: {dataset}",
        _format_caption(study, words.rstrip(), "runs", "noise", "cnn"),
        (build_column(key, *place) for key, place in MEASURES.items()),
        reasons.format_notes(reasons.FAR_MEAN, archived=study.is_archived),
        reasons.find_row_notes,
    )


PAPER = Paper("ocfl", "OCFL", build_published_tables, by_setting=True)
