"""The tables of significance tests between algorithms: p of each pair, and the size of each difference."""

from collections.abc import Iterator
from math import isnan

from fedgrid.tracking.scoring.paired_tests import ALPHA, LEAST_DIFFERENCES, LEVEL, Pair, SignedRanks
from fedgrid.tracking.scoring.statistics import Comparison
from fedgrid.tracking.scoring.study import format_slug
from fedgrid.tracking.tables.table import NONE, Cell, Column, Row, Table, format_fixed

LEAST_P = 0.001
"""Smaller p-values are printed as `<0.001`."""
EFFECT = (
    "Effect: rank-biserial correlation, ranks won minus ranks lost over all ranks; 1 is better in every "
    f"scenario, 0 is even, and an equal score counts for neither; low and high: its "
    f"{100 * LEVEL:.0f} % interval by a bootstrap over scenarios."
)
"""A part of captions."""
EFFECT_COLUMNS = ("effect", "low", "high")


def build_significance_table(comparison: Comparison) -> Table:
    """Build the table of ranks and p-values of pairs, best rank first.

    The better of each pair is marked.
    """
    # A pair is tested once, and is in the rows of both algorithms.
    pairs = {frozenset((pair.one, pair.other)): pair for pair in comparison.pairs}
    # Without tests the ranks alone remain, and the columns of pairs would all be dashes.
    names = comparison.algorithms if pairs else ()
    rows = tuple(
        Row(
            name,
            (
                build_rank_cell(rank),
                *(_build_pair_cell(pairs.get(frozenset((name, other))), name) for other in names),
            ),
        )
        for name, rank in zip(comparison.algorithms, comparison.ranks, strict=True)
    )
    words = [
        f"Average rank (1 is best) by {comparison.measure}, {comparison.scope}.",
        "Columns of algorithms: two-sided exact p of Wilcoxon's signed-rank test of each pair after Holm's "
        f"correction; bold below {ALPHA}, with + if the row is better in this pair and - if the column is."
        if names
        else "",
        *_describe_friedman(comparison),
        *comparison.remarks,
    ]
    return Table(
        f"significance-{format_slug(comparison.measure)}",
        f"Significance of differences: {comparison.measure}",
        " ".join(word for word in (words if rows else comparison.remarks) if word),
        tuple(map(Column, ("rank", *names))),
        rows,
        corner="algorithm",
    )


def build_effects_table(comparison: Comparison) -> Table:
    """Build the table of pairs, the better rank first: wins, size of the difference, its interval and p."""
    over_datasets = comparison.num_datasets > 0
    words = [*_describe_effects(comparison), *_describe_friedman(comparison), *comparison.remarks]
    return Table(
        f"effects-{format_slug(comparison.measure)}",
        f"Size of differences: {comparison.measure}",
        " ".join(words),
        (
            *(Column(name, "scenarios") for name in ("better", "equal", "worse")),
            *map(Column, EFFECT_COLUMNS),
            Column("scenarios", "p over"),
            *([Column("data sets", "p over")] if over_datasets else []),
        ),
        tuple(
            Row(
                pair.other,
                (
                    *(
                        Cell(str(number), float(number))
                        for number in (pair.test.better, pair.test.equal, pair.test.worse)
                    ),
                    *build_effect_cells(pair.test),
                    _build_p_cell(pair.p),
                    *([_build_p_cell(pair.p_datasets)] if over_datasets else []),
                ),
                f"{pair.one} against",
            )
            for pair in comparison.pairs
        ),
        corner="algorithm",
        part="better rank",
    )


def _describe_effects(comparison: Comparison) -> Iterator[str]:
    """Yield the sentences of the caption on wins, effects and both kinds of p."""
    if not comparison.pairs:
        return
    yield (
        f"By {comparison.measure}, {comparison.scope}: in how many the first algorithm is better, equal and "
        f"worse. {EFFECT}"
    )
    yield (
        f"p over scenarios: two-sided exact signed-rank test of pairs that differ in {LEAST_DIFFERENCES} "
        "scenarios or more."
    )
    if comparison.num_datasets > 0:
        yield (
            "p over data sets: t-test of the means of each data set, as of a mixed model in which data sets "
            "are random; –: the difference is the same in all."
        )
    yield f"After Holm's correction; bold below {ALPHA}."


def build_effect_cells(test: SignedRanks) -> tuple[Cell, ...]:
    """Build the cells of `EFFECT_COLUMNS`."""
    return tuple(Cell(format_fixed(value, 2), value) for value in (test.effect, *test.interval))


def _describe_friedman(comparison: Comparison) -> list[str]:
    """Describe the results of Friedman's tests, over scenarios and over data sets."""
    words = []
    if comparison.friedman_p is not None:
        words.append(f"Friedman's test of all algorithms: p {format_p(comparison.friedman_p, 'is ')}.")
    if comparison.friedman_p_datasets is not None:
        p = format_p(comparison.friedman_p_datasets, "is ")
        words.append(f"Over the means of the {comparison.num_datasets} data sets: p {p}.")
    return words


def _build_pair_cell(pair: Pair | None, row: str) -> Cell:
    """Build the cell of a pair in the row of one of its two, a dash on the diagonal."""
    cell = _build_p_cell(pair.p if pair else None)
    if pair is None or not cell.bold:
        return cell
    is_better = (pair.test.effect > 0) == (pair.one == row)
    return Cell(f"{cell.text} {'+' if is_better else '-'}", cell.value, bold=True)


def build_rank_cell(rank: float | None, num_scenarios: int = 0) -> Cell:
    """Build the cell of an average rank; a dash for none."""
    if rank is None or isnan(rank):
        return Cell(NONE)
    return Cell(format_fixed(rank, 2), rank, count=num_scenarios)


def _build_p_cell(p: float | None) -> Cell:
    """Build the cell of a p-value, bold if it is significant; a dash for none."""
    return Cell(NONE) if p is None else Cell(format_p(p), p, bold=p < ALPHA)


def format_p(p: float, otherwise: str = "") -> str:
    """Format p with three digits, or as `<0.001`; `otherwise` stands before the digits."""
    return f"<{LEAST_P}" if p < LEAST_P else f"{otherwise}{format_fixed(p, 3)}"
