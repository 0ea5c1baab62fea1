"""Our numbers next to the published ones, in the published conventions, with reasons as footnotes."""

from dataclasses import replace
from functools import partial

from fedgrid.tracking.papers.ocfl import numbers, reasons
from fedgrid.tracking.papers.shared.paper import Paper, put_beside, table_beside
from fedgrid.tracking.scoring.measures import PUBLISHED_CLUSTERING, Measure
from fedgrid.tracking.scoring.study import Study, split_name
from fedgrid.tracking.tables.cells import StudyColumn, over_scenarios, restrict
from fedgrid.tracking.tables.clustering import published_cell, published_round
from fedgrid.tracking.tables.personalisation import LAST, MEAN, PUBLISHED, SPANS, untested
from fedgrid.tracking.tables.table import NONE, Cell, Table, fixed

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


def against_published(study: Study) -> tuple[Table, ...]:
    """Build Table 1, Table 2 and the personalisation of every data set with published numbers.

    An algorithm is compared with the row of `Run.published`; one without such a row is left out.
    """
    scenarios = {scenario for scenario, _ in numbers.clustering()}
    rows = {row for _, row in numbers.clustering()}
    compared = study.only(run for run in study.runs if run.scenario in scenarios and run.published in rows)
    by_dataset = (compared.of(dataset=dataset) for dataset in compared.datasets)
    return (
        *(_clustering(compared.of(dataset=dataset, clients=clients)) for dataset, clients in compared.blocks),
        *(table for part in by_dataset for table in (_rounds(part), _personalisation(part))),
    )


def _clustering(study: Study) -> Table:
    """Build Table 1 of one data set and number of clients, next to the published one."""
    ((dataset, clients),) = study.blocks
    columns = (
        StudyColumn(
            heading,
            split_name(split),
            reasons.column_notes(heading),
            cell=restrict(partial(_score, heading=heading), split=split),
        )
        for split in study.splits
        for heading in PUBLISHED_CLUSTERING
    )
    return table_beside(
        study,
        f"against-table1-{dataset}-{clients}",
        f"Table 1 beside the published one: {dataset}, {clients} clients",
        _caption(study, "–: one cluster in all rounds.", "first-50", "runs", "cnn"),
        columns,
        reasons.texts(reasons.FAR_SCORE, archived=study.is_archived),
        reasons.row_notes,
    )


def _caption(study: Study, words: str, *keys: str) -> str:
    """Format the conventions, words on a table, and the reasons that apply to all of it."""
    whose = "Archive" if study.is_archived else "Ours"
    sentences = reasons.sentences(study.datasets[0], *keys, archived=study.is_archived)
    return " ".join([f"{whose} / published, both in the published conventions.", words, *sentences])


def _score(study: Study, heading: str) -> Cell:
    """Build a cell of Table 1, rounded like the published one before printing."""
    measure = PUBLISHED_CLUSTERING[heading]
    cell = published_cell(study, measure)
    if not study.runs:
        return cell
    printed = Measure(
        measure.name, lambda result: numbers.digits_of(measure.of(result)), measure.highest, measure.digits
    )
    run = study.runs[0]
    row = numbers.clustering()[run.scenario, str(run.published)]
    scores = {"RAND": row.published_rand, "AMI": row.published_ami, "COM": row.published_com}
    text = fixed(scores[heading], measure.digits) if any(scores.values()) else NONE
    # The value stays in full digits; only the text is rounded twice, as the authors did.
    cell = replace(cell, text=published_cell(study, printed).text)
    cell = put_beside(cell, scores[heading], text, far=FAR_SCORE)
    return reasons.note_cell(cell, run, heading) if cell.text else cell


def _rounds(study: Study) -> Table:
    """Build Table 2 of one data set, next to the published one."""
    columns = (
        StudyColumn(
            split_name(split), f"{clients} clients", cell=restrict(_round, clients=clients, split=split)
        )
        for _, clients, split, *_ in study.scenarios
    )
    return table_beside(
        study,
        f"against-table2-{study.datasets[0]}",
        f"Table 2 beside the published one: {study.datasets[0]}",
        _caption(study, "–: the labels never change.", "runs", "cnn"),
        columns,
        reasons.texts(reasons.FAR_ROUND, archived=study.is_archived),
        reasons.row_notes,
    )


def _round(study: Study) -> Cell:
    """Build a cell of Table 2 with the published round, a dash for round 1."""
    cell = published_round(study)
    if not study.runs:
        return cell
    run = study.runs[0]
    number = numbers.clustering()[run.scenario, str(run.published)].published_round
    # A round is no better for being early.
    return put_beside(cell, number, str(number) if number > 1 else NONE, far=FAR_ROUNDS, highest=None)


def _personalisation(study: Study) -> Table:
    """Build the personalisation of one data set, next to the published means."""
    (dataset,) = study.datasets
    # The published means are over all scenarios: ours shows how many of them it is over.
    expected = numbers.SCENARIOS * len({run.seed for run in study.runs})

    def column(key: str, span: str, heading: str) -> StudyColumn:
        """Build the column of one measure."""
        measure = SPANS[span](heading, PUBLISHED[heading])

        def cell(own: Study) -> Cell:
            """Build the cell of one algorithm."""
            printed = numbers.personalisation()[dataset, str(own.runs[0].published)][key]
            mean, text = over_scenarios(own, measure, expected=expected), fixed(printed, measure.digits)
            return put_beside(mean, printed, text, far=FAR_SCORE, highest=measure.highest)

        return StudyColumn(heading, span, reasons.column_notes(heading), cell=cell)

    words = (
        f"Means over the {numbers.SCENARIOS} published scenarios. Names as in the table of personalisation. "
        f"PBA is recomputed from the authors' results. {untested(study)}"
    )
    return table_beside(
        study,
        f"against-personalisation-{dataset}",
        f"Personalisation and generalisation beside the published: {dataset}",
        _caption(study, words.rstrip(), "runs", "noise", "cnn"),
        (column(key, *place) for key, place in MEASURES.items()),
        reasons.texts(reasons.FAR_MEAN, archived=study.is_archived),
        reasons.row_notes,
    )


PAPER = Paper("ocfl", "OCFL", against_published, by_setting=True)
