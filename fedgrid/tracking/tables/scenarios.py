"""Tables of a whole study: an overview, harm to clients, every score of every scenario."""

from collections.abc import Mapping, Sequence
from functools import partial

from fedgrid.tracking.scoring import measures
from fedgrid.tracking.scoring.axes import format_scenario
from fedgrid.tracking.scoring.measures import Measure, last_round, mean_over_rounds
from fedgrid.tracking.scoring.statistics import compare_algorithms
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables import personalisation
from fedgrid.tracking.tables.cells import (
    StudyColumn,
    average_seeds,
    build_algorithms_table,
    build_measure_column,
    explain_table,
)
from fedgrid.tracking.tables.clustering import build_right_share_cell
from fedgrid.tracking.tables.significance import build_rank_cell
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table


def overview(study: Study) -> Table:
    """Build a table with a row for each algorithm: how many runs are finished, and the main scores."""
    pf1, gf1 = measures.choose_f1_measures(study)
    comparison = compare_algorithms(study, pf1)
    score = "R2" if pf1 is measures.PR2_LAST else "F1"
    # The comparison leaves out algorithms with few scores: they are in the table without a rank.
    ranks = dict(zip(comparison.algorithms, comparison.ranks, strict=True))
    ranked = f"mean rank by {pf1.name}, 1 is best, {comparison.scope}" if ranks else "no ranks yet"

    def build_mean_rank_cell(own: Study) -> Cell:
        """Build the cell of an algorithm's mean rank."""
        return build_rank_cell(ranks.get(own.runs[0].algorithm), comparison.num_scenarios)

    return build_algorithms_table(
        study,
        "overview",
        f"Overview of {study.name}",
        "Finished runs; runs whose last partition equals the hidden groups, of those that have groups; "
        f"adjusted Rand index (ARI) of the last partition; {score} of the last round on the clients' own "
        "test sets (personalised) and on the server's (generalised), means over scenarios; "
        f"{ranked}. Best of a column in bold.",
        (
            StudyColumn("finished", cell=_build_finished_cell),
            StudyColumn("exactly right", highest=True, cell=build_right_share_cell),
            *map(build_measure_column, (measures.FINAL_ARI, pf1, gf1)),
            StudyColumn("mean rank", highest=False, cell=build_mean_rank_cell),
        ),
    )


def build_scenarios_table(study: Study) -> Table:
    """Build a table with a row for each scenario and algorithm, with all scores that other tables average."""
    columns = _list_measures(study)
    axes = dict.fromkeys(key for run in study.runs for key, _ in run.setting)
    rows = tuple(
        Row(
            algorithm,
            (
                *map(Cell, (dataset, str(clients), split, *(value for _, value in setting))),
                _build_finished_cell(runs),
                build_right_share_cell(runs),
                *(average_seeds(runs, measure) for measure in columns.values()),
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
    return explain_table(table, study)


def _list_measures(study: Study) -> Mapping[tuple[str, str], Measure]:
    """List the measures of all scores by group and heading."""
    published = {**measures.PUBLISHED_CLUSTERING, "round": measures.ROUND_PUBLISHED}
    columns = {("as published", name): measure for name, measure in published.items()}
    # Headings repeat between groups, as `mean ari` and `ARI`: the group is a part of the key.
    columns |= {("clustering", measure.name): measure for measure in measures.CLUSTERING}
    groups = {
        "as published": personalisation.PUBLISHED,
        "clients": {**personalisation.RIGHT, **personalisation.FAIRNESS},
    }
    if measures.select_recorded(study, (measures.PR2_LAST,)):
        # Runs that predict numbers have no accuracy, F1 or recall: these columns would be empty.
        groups = {"clients": personalisation.NUMBER_SCORES}
    for group, curves in groups.items():
        columns |= {(group, f"mean {name}"): mean_over_rounds(name, curve) for name, curve in curves.items()}
        columns |= {(group, f"last {name}"): last_round(name, curve) for name, curve in curves.items()}
    return columns


def _build_finished_cell(study: Study) -> Cell:
    """Build the cell of the number of finished runs."""
    finished, expected = len(study.finished), len(study.runs)
    return Cell(f"{finished}/{expected}", float(finished), tone="" if finished == expected else "partial")


def build_own_numbers_table(study: Study, own: Sequence[Measure]) -> Table:
    """Build the table of the numbers that algorithms declare of their own, with a row for each algorithm."""
    return build_algorithms_table(
        study,
        "own-numbers",
        "Numbers of algorithms' own",
        "Of the last round that has one; means over scenarios. Meanings: `fedgrid list algorithms NAME`.",
        map(build_measure_column, own),
    )


def build_harm_table(study: Study) -> Table | None:
    """Build the table of the shares of clients that do worse than alone, or than with FedAvg-FT.

    It has a row for each algorithm, and is None if the grid has no run to compare with.
    """
    recorded = measures.select_recorded(study, measures.WORSE.values())
    # Without runs of solo or fine-tuned there is nothing to compare with.
    if not recorded:
        return None

    def build_worst_cell(own: Study, measure: Measure) -> Cell:
        """Build the cell of the scenario with the largest share of an algorithm."""
        shares = measures.average_by_scenario(measures.read_scores_by_seed(own, measure))
        worst = max(shares, key=shares.__getitem__, default=None)
        return Cell(NONE if worst is None else f"{shares[worst]:.2f} {format_scenario(worst)}")

    return build_algorithms_table(
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
                build_measure_column(measure, "mean", measure.name),
                StudyColumn("most", measure.name, cell=partial(build_worst_cell, measure=measure)),
            )
        ],
    )
