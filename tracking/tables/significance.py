"""The table of significance tests between algorithms."""

from fedgrid.tracking.scoring.statistics import ALPHA, Comparison
from fedgrid.tracking.scoring.study import slug
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, fixed

LEAST_P = 0.001
"""Smaller p-values are printed as `<0.001`."""


def significance(comparison: Comparison) -> Table:
    """Return the table of ranks and pairwise p-values, best rank first, with the better of each pair
    marked."""
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
        f"Average rank (1 is best) by {comparison.measure}, {comparison.where}.",
        f"Columns of algorithms: two-sided p of Wilcoxon's signed-rank test of each pair after Holm's "
        f"correction; bold below {ALPHA}, with + if the row is better and - if the column is."
        if names
        else "",
        "" if friedman is None else f"Friedman's test of all algorithms: p {_p_text(friedman, 'is ')}.",
        *comparison.remarks,
    ]
    if not ranked:
        words = [*comparison.remarks]
    return Table(
        f"significance-{slug(comparison.measure)}",
        f"Significance of differences: {comparison.measure}",
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
