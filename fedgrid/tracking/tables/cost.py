"""The cost of a target score: rounds, bytes and seconds until it is reached."""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from fedgrid.tracking.scoring.cost import AS_USUAL, Cost, Terms, costs, recorded, scale
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import block_of, explained, title_of
from fedgrid.tracking.tables.table import Column, Row, Table, bold_columns, median, share

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
    rows = []
    for algorithm, found in by_algorithm.items():
        part = study.of(algorithm=algorithm)
        reached = sum(np.isfinite(each.rounds) for each in found)
        cells = (
            share(int(reached), len(part.finished), len(part.runs)),
            *(median([of(each) for each in found], digits, never=NEVER) for _, of, digits in columns),
        )
        rows.append(Row(algorithm, cells, is_reference=algorithm in study.references))
    table = Table(
        f"cost-{dataset}-{clients}",
        f"Cost of {target.score} {target.goal}: {title_of(dataset, clients)}",
        f"Until {target.score} first reaches {target.goal}: how many runs reach it; medians over all runs "
        f"of the rounds, of the {SENT[terms.unit]} ({CONVENTIONS[terms.traffic]}), and of the seconds, as "
        f"without the round cache. {NEVER}: not reached by half of the runs. Least of a column in bold.",
        (Column("reached"), *(Column(heading, "until the target") for heading, _, _ in columns)),
        bold_columns(rows, [None, False, False, False]),
        corner="algorithm",
    )
    return explained(table, study)
