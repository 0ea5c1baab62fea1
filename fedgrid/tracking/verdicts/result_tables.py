"""Tables of an arena's results: every method in a question, family by family, and tuned beside default."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isinf, isnan

import numpy as np

from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, bold_columns, fixed
from fedgrid.tracking.verdicts.families import BNC
from fedgrid.tracking.verdicts.field import Field
from fedgrid.tracking.verdicts.verdict import CLUSTERING, TARGET

BELOW_BNC = "b"
TESTED = "Better than, worse than: how many other methods it is shown to be better or worse than."


def overall(field: Field, name: str, title: str) -> Table:
    """Return the table of a question: a row a method, by mean rank; references without a rank."""
    is_clustering = field.question is CLUSTERING
    own = (
        ("ARI", "exactly right")
        if is_clustering
        else ("accuracy", "worst tenth", "MB", f"MB to {TARGET:.0%}")
    )
    last = () if is_clustering else ("against BNC",)
    best = [False, True, None] if is_clustering else [False, True, True, None, None]
    rows = [
        Row(
            standing.title,
            (*_rank(field, method), *_scores(field, method), *_tested(field, method)),
            is_reference=standing.is_reference,
        )
        for method, standing in field.standings.items()
    ]
    cost = (
        ""
        if is_clustering
        else " MB: sent by all clients and the server, mean; until the block's best competitor's accuracy x "
        f"{TARGET:g}, median."
    )
    return Table(
        name,
        title,
        f"Means over {field.blocks} blocks (a family and a seed). {TESTED}{cost} References have no rank.",
        tuple(map(Column, ("rank", *own, "better than", "worse than", *last))),
        bold_columns(rows, [*best, None, None, *(None for _ in last)]),
        corner="method",
    )


def groups_by_family(field: Field, name: str) -> Table:
    """Return ARI, and in how many seeds the partition is right, by family."""
    title = "Groups found, by family"
    caption = (
        "Mean ARI, and in how many seeds the clusters are the hidden groups; iid: clients do not differ, and "
        "one cluster is right."
    )
    return _by_family(field, _found, Table(name, title, caption, (), ()))


def regret(field: Field, name: str, title: str) -> Table:
    """Return ORACLE's accuracy less the method's, by family."""
    caption = (
        "ORACLE's accuracy less the method's in percentage points, mean over seeds; negative: the method is "
        "better."
    )
    notes = {BELOW_BNC: "worse than BNC too, mean over seeds"}
    return _by_family(field, _regret, Table(name, title, caption, (), (), notes=notes))


def _by_family(field: Field, cell: Callable[[Field, str, str], Cell], table: Table) -> Table:
    """Return the table with a row a method and a column a family."""
    families = field.names_of_families
    rows = tuple(
        Row(
            standing.title,
            tuple(cell(field, method, family) for family in families),
            is_reference=standing.is_reference,
        )
        for method, standing in field.standings.items()
    )
    return replace(table, columns=tuple(map(Column, families)), rows=rows, corner="method")


def tuned_beside_default(
    columns: Sequence[tuple[str, Field | None, Field | None]], titles: dict[str, str], name: str
) -> Table:
    """Return each method's score with default and with tuned settings.

    Args:
        columns: heading, default and tuned, of each question and protocol.
        titles: method -> title, in the order of the rows.
        name: of the table's files.
    """
    rows = []
    for method, title in titles.items():
        cells = [_score(field, method) for _, default, tuned in columns for field in (default, tuned)]
        rows.append(Row(title, tuple(cells)))
    return Table(
        name,
        "Default and tuned settings",
        "Means over blocks, as in the tables above.",
        tuple(Column(settings, heading) for heading, *_ in columns for settings in ("default", "tuned")),
        tuple(rows),
        corner="method",
    )


def score_of(field: Field | None, method: str) -> float | None:
    """Return a method's mean score; None if it has none."""
    if field is None or method not in field.standings:
        return None
    return field.standings[method].score


def _score(field: Field | None, method: str) -> Cell:
    score = score_of(field, method)
    return Cell(NONE) if score is None else Cell(fixed(score, 3), score)


def _rank(field: Field, method: str) -> tuple[Cell]:
    rank = field.pairwise.ranking.ranks.get(method)
    return (Cell(NONE) if rank is None else Cell(fixed(rank, 1), rank),)


def _scores(field: Field, method: str) -> list[Cell]:
    standing = field.standings[method]
    score = Cell(fixed(standing.score, 3), standing.score)
    if field.question is CLUSTERING:
        right = round(standing.also * standing.num_blocks)
        return [score, Cell(f"{right}/{standing.num_blocks}", standing.also)]
    sent = float(np.mean([each.megabytes for each in field.outcomes if each.method == method]))
    until = standing.megabytes
    return [
        score,
        Cell(fixed(standing.also, 3), standing.also),
        Cell(f"{sent:.3g}", sent),
        Cell("never") if isinf(until) else Cell(f"{until:.3g}", until),
    ]


def _tested(field: Field, method: str) -> list[Cell]:
    pairwise = field.pairwise
    count = 2 if field.question is CLUSTERING else 3
    if method not in pairwise.better:
        return [Cell(NONE)] * count
    better, worse = pairwise.better[method], pairwise.worse(method)
    found = [Cell(str(len(each)), float(len(each))) for each in (better, worse)]
    if field.question is CLUSTERING:
        return found
    words = "better" if BNC in better else "worse" if BNC in worse else "not shown"
    return [*found, Cell(NONE if method == BNC or BNC not in pairwise.better else words)]


def _found(field: Field, method: str, family: str) -> Cell:
    found = field.families[method].get(family)
    if found is None or isnan(found.ari):
        return Cell(NONE)
    return Cell(f"{fixed(found.ari, 2)} ({found.right}/{found.seeds})", found.ari)


def _regret(field: Field, method: str, family: str) -> Cell:
    found = field.families[method].get(family)
    if found is None or isnan(found.regret):
        return Cell(NONE)
    notes = (BELOW_BNC,) if found.gain < 0 else ()
    return Cell(fixed(100 * found.regret, 1), 100 * found.regret, notes=notes)
