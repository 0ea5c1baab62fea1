"""Our numbers beside the published ones, in the published conventions, with known reasons as footnotes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fedgrid.tracking.papers.ocfl import numbers, reasons
from fedgrid.tracking.papers.shared.cells import beside
from fedgrid.tracking.papers.shared.paper import Study
from fedgrid.tracking.scoring.measures import PUBLISHED_CLUSTERING
from fedgrid.tracking.tables.cells import explained, over_scenarios, split_name, title_of
from fedgrid.tracking.tables.clustering import published_cell, published_round
from fedgrid.tracking.tables.personalisation import LAST, MEAN, PUBLISHED, measure_of, untested
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, fixed, lettered

FAR_SCORE = 0.1
FAR_ROUNDS = 5
CONVENTIONS = "{} / published, both in the published conventions."
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
    """Return Table 1, Table 2 and the personalisation of every data set with published numbers.

    An algorithm is compared with the row of `Run.published`; one without such a row is left out.
    """
    scenarios = {scenario for scenario, _ in numbers.clustering()}
    rows = {row for _, row in numbers.clustering()}
    known = replace(
        study, runs=tuple(run for run in study.runs if run.scenario in scenarios and run.published in rows)
    )
    by_dataset = (known.of(dataset=dataset) for dataset in known.datasets)
    return (
        *(_clustering(known.of(dataset=dataset, clients=clients)) for dataset, clients in known.blocks),
        *(table for part in by_dataset for table in (_rounds(part), _personalisation(part))),
    )


def _conventions(study: Study) -> str:
    return CONVENTIONS.format("Archive" if study.is_archived else "Ours")


def _clustering(study: Study) -> Table:
    ((dataset, clients),) = study.blocks
    columns = [(split, heading) for split in study.splits for heading in PUBLISHED_CLUSTERING]
    known = reasons.sentences(dataset, "first-50", "runs", "cnn", archived=study.is_archived)
    rows = _rows(study, lambda part: [_score(part.of(split=split), heading) for split, heading in columns])
    table = Table(
        f"against-table1-{dataset}-{clients}",
        f"Table 1 beside the published one: {title_of(dataset, clients)}",
        " ".join([_conventions(study), "–: one cluster in all rounds.", *known]),
        tuple(reasons.of_column(Column(heading, split_name(split))) for split, heading in columns),
        rows,
        corner="algorithm",
        notes=reasons.texts(reasons.FAR_SCORE, archived=study.is_archived),
    )
    return lettered(explained(table, study))


def _score(study: Study, heading: str) -> Cell:
    """Return a cell of Table 1, rounded like the published one before printing."""
    measure = PUBLISHED_CLUSTERING[heading]
    cell = published_cell(study, measure)
    if not study.runs:
        return cell
    printed = replace(measure, of=lambda result: numbers.digits_of(measure.of(result)))
    run = study.runs[0]
    known = numbers.clustering()[run.scenario, str(run.published)]
    scores = {"RAND": known.published_rand, "AMI": known.published_ami, "COM": known.published_com}
    text = fixed(scores[heading], measure.digits) if any(scores.values()) else NONE
    cell = replace(cell, text=published_cell(study, printed).text)
    cell = beside(cell, scores[heading], text, far=FAR_SCORE)
    return reasons.of_cell(cell, run, heading) if cell.text else cell


def _rounds(study: Study) -> Table:
    (dataset,) = study.datasets
    columns = [(clients, split) for _, clients, split, *_ in study.scenarios]
    known = reasons.sentences(dataset, "runs", "cnn", archived=study.is_archived)
    rows = _rows(
        study, lambda part: [_round(part.of(clients=clients, split=split)) for clients, split in columns]
    )
    table = Table(
        f"against-table2-{dataset}",
        f"Table 2 beside the published one: {dataset}",
        " ".join([_conventions(study), "–: the labels never change.", *known]),
        tuple(Column(split_name(split), f"{clients} clients") for clients, split in columns),
        rows,
        corner="algorithm",
        notes=reasons.texts(reasons.FAR_ROUND, archived=study.is_archived),
    )
    return lettered(explained(table, study))


def _round(study: Study) -> Cell:
    cell = published_round(study)
    if not study.runs:
        return cell
    run = study.runs[0]
    number = numbers.clustering()[run.scenario, str(run.published)].published_round
    return beside(cell, number, str(number) if number > 1 else NONE, far=FAR_ROUNDS, highest=None)


def _personalisation(study: Study) -> Table:
    (dataset,) = study.datasets
    known = numbers.personalisation()
    expected = numbers.SCENARIOS * len({run.seed for run in study.runs})

    def cells_of(part: Study) -> Iterator[Cell]:
        row = known[dataset, str(part.runs[0].published)]
        for key, (span, heading) in MEASURES.items():
            measure = measure_of(span, heading, PUBLISHED[heading])
            cell = over_scenarios(part, measure, expected=expected)
            text = fixed(row[key], measure.digits)
            yield beside(cell, row[key], text, far=FAR_SCORE, highest=measure.highest)

    table = Table(
        f"against-personalisation-{dataset}",
        f"Personalisation and generalisation beside the published: {dataset}",
        " ".join(
            [
                _conventions(study),
                f"Means over the {numbers.SCENARIOS} published scenarios. Names as in the table of "
                "personalisation. PBA is recomputed from the authors' results.",
                *filter(None, [untested(study)]),
                *reasons.sentences(dataset, "runs", "noise", "cnn", archived=study.is_archived),
            ]
        ),
        tuple(reasons.of_column(Column(heading, span)) for span, heading in MEASURES.values()),
        _rows(study, cells_of),
        corner="algorithm",
        notes=reasons.texts(reasons.FAR_MEAN, archived=study.is_archived),
    )
    return lettered(explained(table, study))


def _rows(study: Study, cells_of: Callable[[Study], Iterable[Cell]]) -> tuple[Row, ...]:
    parts = (study.of(algorithm=algorithm) for algorithm in study.algorithms)
    return tuple(
        reasons.of_row(Row(part.runs[0].algorithm, tuple(cells_of(part))), part.runs[0]) for part in parts
    )
