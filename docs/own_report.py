"""A figure and a table of one's own for a report."""

from matplotlib.figure import Figure

from fedgrid import Study, figures
from fedgrid.tracking.scoring.measures import last_round
from fedgrid.tracking.tables.cells import over_scenarios
from fedgrid.tracking.tables.table import Column, Row, Table

WORST = last_round("worst client", "worst_client_accuracy")


def speed(study: Study) -> Figure:
    """Rounds until the partition is right

    The first round with an ARI of 1; runs that never get there are left out.
    """
    figure = figures.PaperFigure(figsize=(3.4, 2.6), layout="constrained")
    axes = figure.subplots()
    for place, algorithm in enumerate(study.algorithms):
        exact = [result.curves["ari"] >= 1 for result in study.where(algorithm=algorithm).finished]
        rounds = [right.argmax() + 1 for right in exact if right.any()]
        axes.plot([place] * len(rounds), rounds, "o")
    places = range(len(study.algorithms))
    axes.set_xticks(places, study.algorithms, rotation=45, ha="right")
    axes.set_ylabel("round")
    return figure


def worst(study: Study) -> Table:
    """Tabulate the least accuracy of any client, averaged as in the report's own tables."""
    rows = [
        Row(algorithm, (over_scenarios(study.where(algorithm=algorithm), WORST),))
        for algorithm in study.algorithms
    ]
    title = "Worst client"
    caption = "Its accuracy after the last round: mean over scenarios, deviation over seeds."
    return Table("own-worst", title, caption, (Column("accuracy"),), tuple(rows), corner="algorithm")


FIGURES = [speed]
TABLES = [worst]
