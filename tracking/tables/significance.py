"""Which differences between algorithms are significant."""

import re

from fedgrid.tracking.scoring.statistics import ALPHA, Comparison
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, fixed

LEAST_P = 0.001
"""Smaller ones are printed as smaller than this."""


def significance(comparison: Comparison) -> Table:
    """Return the p-values of all pairs, best rank first, and which of a pair is better."""
    names = comparison.algorithms if comparison.p_values is not None else ()
    ranked = list(zip(comparison.algorithms, comparison.ranks, strict=True))
    rows = tuple(
        Row(
            name,
            (Cell(fixed(rank, 2), rank), *(_p_cell(comparison, place, other) for other in range(len(names)))),
        )
        for place, (name, rank) in enumerate(ranked)
    )
    friedman = comparison.friedman_p
    words = [
        f"Average rank (1 is best) by {comparison.measure}, {comparison.where}, and two-sided p of "
        f"Wilcoxon's signed-rank test of each pair after Holm's correction; bold below {ALPHA}, with + where "
        "the row is better and - where the column is.",
        "" if friedman is None else f"Friedman's test of all: p {_p_text(friedman, 'is ')}.",
        *comparison.remarks,
    ]
    if not ranked:
        words = [*comparison.remarks]
    return Table(
        f"significance-{re.sub(r'[^a-z0-9]+', '-', comparison.measure.lower()).strip('-')}",
        f"Which differences are significant: {comparison.measure}",
        " ".join(word for word in words if word),
        tuple(map(Column, ("rank", *names))),
        rows,
        corner="algorithm",
    )


def _p_cell(comparison: Comparison, row: int, column: int) -> Cell:
    assert comparison.p_values is not None
    if row == column:
        return Cell(NONE)
    p = float(comparison.p_values[row, column])
    if p >= ALPHA:
        return Cell(_p_text(p), p)
    is_better = comparison.ranks[row] < comparison.ranks[column]
    return Cell(f"{_p_text(p)} {'+' if is_better else '-'}", p, bold=True)


def _p_text(p: float, otherwise: str = "") -> str:
    return f"<{LEAST_P}" if p < LEAST_P else f"{otherwise}{fixed(p, 3)}"
