"""Tables of a whole study: an overview, harm to clients, every score of every scenario."""

from collections.abc import Mapping, Sequence
from functools import partial

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import scenario_words
from fedgrid.tracking.scoring.measures import Measure, last_round, mean_over_rounds
from fedgrid.tracking.scoring.statistics import compare
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables import personalisation
from fedgrid.tracking.tables.cells import (
    StudyColumn,
    algorithms_table,
    explain_cells,
    measure_column,
    over_seeds,
)
from fedgrid.tracking.tables.clustering import right_share
from fedgrid.tracking.tables.significance import rank_cell
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table


def overview(study: Study) -> Table:
    """Build a table with a row for each algorithm: how many runs are finished, and the main scores."""
    pf1, gf1 = measures.last_f1(study)
    comparison = compare(study, pf1)
    score = "R2" if pf1 is measures.PR2_LAST else "F1"
    # The comparison leaves out algorithms with few scores: they are in the table without a rank.
    ranks = dict(zip(comparison.algorithms, comparison.ranks, strict=True))
    ranked = f"mean rank by {pf1.name}, 1 is best, {comparison.where}" if ranks else "no ranks yet"

    def rank(own: Study) -> Cell:
        """Build the cell of an algorithm's mean rank."""
        return rank_cell(ranks.get(own.runs[0].algorithm), comparison.num_scenarios)

    return algorithms_table(
        study,
        "overview",
        f"Overview of {study.name}",
        "Finished runs; runs whose last partition equals the hidden groups, of those that have groups; "
        f"adjusted Rand index (ARI) of the last partition; {score} of the last round on the clients' own "
        "test sets (personalised) and on the server's (generalised), means over scenarios; "
        f"{ranked}. Best of a column in bold.",
        (
            StudyColumn("finished", cell=_finished),
            StudyColumn("exactly right", highest=True, cell=right_share),
            *map(measure_column, (measures.FINAL_ARI, pf1, gf1)),
            StudyColumn("mean rank", highest=False, cell=rank),
        ),
    )


def per_scenario(study: Study) -> Table:
    """Build a table with a row for each scenario and algorithm, with all scores that other tables average."""
    columns = _measures(study)
    axes = dict.fromkeys(key for run in study.runs for key, _ in run.setting)
    rows = tuple(
        Row(
            algorithm,
            (
                *map(Cell, (dataset, str(clients), split, *(value for _, value in setting))),
                _finished(runs),
                right_share(runs),
                *(over_seeds(runs, measure) for measure in columns.values()),
                Cell("; ".join(f"s{run.seed}: {run.lacking}" for run in runs.unfinished) or NONE),
            ),
            is_reference=algorithm in study.references,
        )
        for ((dataset, clients, split, *setting), algorithm), runs in study.cells().items()
    )
    table = Table(
        "scenarios",
        "All scenarios",
        "All scores by scenario and algorithm, in the published conventions and in the right ones. Names are "
        "as in the other tables.",
        (
            *map(Column, ("data set", "clients", "split", *axes)),
            *map(Column, ("finished", "exactly right")),
            *(Column(name, group) for group, name in columns),
            Column("not finished"),
        ),
        rows,
        corner="algorithm",
    )
    return explain_cells(table, study)


def _measures(study: Study) -> Mapping[tuple[str, str], Measure]:
    """List the measures of all scores by group and heading."""
    published = {**measures.PUBLISHED_CLUSTERING, "round": measures.ROUND_PUBLISHED}
    columns = {("as published", name): measure for name, measure in published.items()}
    # Headings repeat between groups, as `mean ari` and `ARI`: the group is a part of the key.
    columns |= {("clustering", measure.name): measure for measure in measures.CLUSTERING}
    groups = {
        "as published": personalisation.PUBLISHED,
        "clients": {**personalisation.RIGHT, **personalisation.FAIRNESS},
    }
    if measures.choose_recorded(study, (measures.PR2_LAST,)):
        # Runs that predict numbers have no accuracy, F1 or recall: these columns would be empty.
        groups = {"clients": personalisation.OF_NUMBERS}
    for group, curves in groups.items():
        columns |= {(group, f"mean {name}"): mean_over_rounds(name, curve) for name, curve in curves.items()}
        columns |= {(group, f"last {name}"): last_round(name, curve) for name, curve in curves.items()}
    return columns


def _finished(study: Study) -> Cell:
    """Build the cell of the number of finished runs."""
    finished, asked = len(study.finished), len(study.runs)
    return Cell(f"{finished}/{asked}", float(finished), tone="" if finished == asked else "partial")


def own_numbers(study: Study, own: Sequence[Measure]) -> Table:
    """Build the table of the numbers that algorithms declare of their own, with a row for each algorithm."""
    return algorithms_table(
        study,
        "own-numbers",
        "Numbers of algorithms' own",
        "Of the last round that has one; means over scenarios. Meanings: `fedgrid list algorithms NAME`.",
        map(measure_column, own),
    )


def harm(study: Study) -> Table | None:
    """Build the table of the shares of clients that do worse than alone, or than with FedAvg-FT.

    It has a row for each algorithm, and is None if the grid has no run to compare with.
    """
    recorded = measures.choose_recorded(study, measures.WORSE.values())
    # Without runs of solo or fine-tuned there is nothing to compare with.
    if not recorded:
        return None

    def most(own: Study, measure: Measure) -> Cell:
        """Build the cell of the scenario with the largest share of an algorithm."""
        shares = measures.scenario_means(measures.scores_by_seed(own, measure))
        worst = max(shares, key=shares.__getitem__, default=None)
        return Cell(NONE if worst is None else f"{shares[worst]:.2f} {scenario_words(worst)}")

    return algorithms_table(
        study,
        "harm",
        "Harm",
        "Share of the clients whose last personalised accuracy is below theirs in the run of solo, or of "
        "fine-tuned, with the same scenario, seed and settings; equal is not worse. Mean over scenarios, and "
        "the scenario with the most. Best of a column in bold.",
        [
            column
            for measure in recorded
            for column in (
                measure_column(measure, "mean", measure.name),
                StudyColumn("most", measure.name, cell=partial(most, measure=measure)),
            )
        ],
    )
