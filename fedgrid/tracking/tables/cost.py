"""The cost of a target score: rounds, bytes and seconds until it is reached."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from fedgrid.tracking.scoring.cost import AS_USUAL, Cost, Terms, costs, recorded, scale
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import algorithms_table, block_of, title_of
from fedgrid.tracking.tables.table import Cell, Column, Table, median, share

NEVER = "never"
SENT = {
    "bytes": "bytes sent up and down by all clients together",
    "mbit-per-client": "megabits sent up and down, a mean over all clients, asked or not (FLIS, Table 3)",
}
CONVENTIONS = {
    "training": "training only",
    "with-test": "training, and the download of a model to be tested by each client that was asked (Prigent "
    "et al., Table IV)",
}


def cost(study: Study, terms: Terms = AS_USUAL) -> Table:
    """Return how many runs of each algorithm reach the target, and their median rounds, traffic and seconds.

    Raises:
        ValueError: if the study has several data sets or numbers of clients.
    """
    dataset, clients = block_of(study)
    terms = recorded(study, terms)
    by_algorithm, target = costs(study, terms), terms.target
    name, size = scale(chain.from_iterable(by_algorithm.values()), terms.unit)
    columns: Sequence[tuple[str, Callable[[Cost], float], int]] = (
        ("rounds", lambda each: each.rounds, 0),
        (name, lambda each: each.sent(terms.unit) / size, 2),
        ("seconds", lambda each: each.seconds, 1),
    )

    def cells(part: Study) -> Iterator[Cell]:
        found = [one for algorithm in part.algorithms for one in by_algorithm[algorithm]]
        reached = sum(bool(np.isfinite(each.rounds)) for each in found)
        yield share(reached, len(part.finished), len(part.runs))
        yield from (median([of(each) for each in found], digits, never=NEVER) for _, of, digits in columns)

    return algorithms_table(
        study,
        f"cost-{dataset}-{clients}",
        f"Cost of {target.score} {target.goal}: {title_of(dataset, clients)}",
        f"Until {target.score} first reaches {target.goal}: how many runs reach it; medians over all runs "
        f"of the rounds, of the {SENT[terms.unit]} ({CONVENTIONS[terms.traffic]}), and of the seconds, as "
        f"without the round cache. {NEVER}: not reached by half of the runs. Least of a column in bold.",
        (Column("reached"), *(Column(heading, "until the target") for heading, _, _ in columns)),
        cells,
        [None, False, False, False],
    )
