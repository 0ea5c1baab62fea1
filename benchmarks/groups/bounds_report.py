"""Write the results of `benchmarks.groups.bounds` into docs/evidence/factors.md.

    python -m benchmarks.groups.bounds_report

On each data set the seeds are compared of which every family is run. A difference is a mean within each kind
of groups, then an exact signed-rank test over kinds, because families of a kind resemble each other; p is not
corrected.

Shapes: N kinds of groups.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.groups import factors
from benchmarks.groups.bounds import BOUNDS_CSV, DISTANCES, ROUNDS
from benchmarks.groups.factors import DATASETS, FAMILIES, KINDS, NUMBERS, Cell, Federation, Row
from benchmarks.groups.factors_report import (
    BOTH,
    NUMBER_TITLES,
    PAGE,
    format_false_splits,
    format_table,
    replace_text,
    select_rows,
)
from fedgrid.algorithms.updates.source import Matrix
from fedgrid.tracking.scoring.paired_tests import SignedRanks, compare_signed_ranks

BEGIN = "<!-- results: benchmarks.groups.bounds_report writes them -->"
END = "<!-- end of results of bounds -->"
TITLES = {
    "raw": "raw",
    "standardised": "standardised",
    "sign": "signs",
    "one-scale": "one scale a tensor",
    "without-last-layer": "standardised, without the last layer",
}
ROUND_TITLES = {"first": "round 1", "second": "round 2", "one": "round 5", "pooled": "pooled"}
STANDARDISED: Cell = ("standardised", "pooled", "told")
DIFFERENCES: Mapping[str, tuple[Cell, Cell]] = {
    "pooled: signs - standardised": (("sign", "pooled", "told"), STANDARDISED),
    "pooled: standardised - one scale a tensor": (STANDARDISED, ("one-scale", "pooled", "told")),
    "standardised: pooled - round 1": (STANDARDISED, ("standardised", "first", "told")),
}


def select_whole_seeds(rows: Sequence[Row]) -> list[Row]:
    """Select the rows of the seeds of which every family of the data set is run."""
    trained = factors.list_trained(rows)
    whole = {
        (each.dataset, each.seed)
        for each in trained
        if all(Federation(each.dataset, family, each.seed) in trained for family in FAMILIES)
    }
    return [row for row in rows if (row.dataset, row.seed) in whole]


def average_by_kind(rows: Sequence[Row], cell: Cell, dataset: str) -> Matrix:
    """Average the share exactly right over a kind's families and seeds, shape (N,).

    `BOTH` is the mean of the data sets.
    """
    if dataset == BOTH:
        return np.asarray(np.mean([average_by_kind(rows, cell, each) for each in DATASETS], axis=0))
    selected = select_rows(rows, *cell, dataset=dataset)
    return np.array(
        [np.mean([row.right for row in selected if row.family.startswith(f"{kind}-")]) for kind in KINDS]
    )


def compare_kinds(rows: Sequence[Row], dataset: str) -> dict[str, SignedRanks]:
    """Test each difference over kinds."""
    return {
        name: compare_signed_ranks(*(average_by_kind(rows, cell, dataset) for cell in cells))
        for name, cells in DIFFERENCES.items()
    }


def format_agreement(rows: Sequence[Row], rows_of_factors: Sequence[Row]) -> str:
    """Format how many rows of cells that `factors` has are the same there."""
    before = {row[:6]: row for row in rows_of_factors}
    again = [row for row in rows if row[:6] in before]
    parts = []
    for dataset in DATASETS:
        same = [row == before[row[:6]] for row in again if row.dataset == dataset]
        changed = sum(row.right != before[row[:6]].right for row in again if row.dataset == dataset)
        parts.append(f"{dataset} {sum(same)} of {len(same)} ({changed})")
    return (
        f"Rows of old cells that are the same when computed again (other in being right): {'; '.join(parts)}."
    )


def format_results(rows: Sequence[Row], rows_of_factors: Sequence[Row]) -> str:
    """Format what stands between the page's marks, of rows of whole seeds."""
    counts = {
        f"{TITLES[distances]}, {ROUND_TITLES[extent]}": _count_right(rows, (distances, extent, "told"))
        for distances, extent in (
            *((name, "pooled") for name in DISTANCES[::-1]),
            *(("standardised", name) for name in ("one", "second", "first")),
        )
    }
    ordered = sorted(counts.items(), key=lambda each: -each[1])
    total = len(select_rows(rows, *STANDARDISED))
    lines = [
        f"Number given, exactly right of {total} federations: "
        f"{'; '.join(f'{name} {count}' for name, count in ordered)}.",
        "",
        " ".join(f"On {dataset}: {_list_seeds(rows, dataset)}." for dataset in DATASETS),
        format_agreement(rows, rows_of_factors),
        "",
        "Number given, share exactly right (mean ARI):",
        "",
        *_tabulate_given(rows),
        "Pooled, share exactly right by way to the number; false splits of federations without groups (at "
        "most: upper 95 % limit of the share):",
        "",
        *_tabulate_numbers(rows),
        "Number given, share exactly right: mean difference over kinds; kinds better, equal, worse; p, not "
        "corrected:",
        "",
    ]
    comparisons = [compare_kinds(rows, dataset) for dataset in (*DATASETS, BOTH)]
    body = [[name, *(_format_test(each[name]) for each in comparisons)] for name in DIFFERENCES]
    return "\n".join(lines + format_table(["", *DATASETS, BOTH], body))


def _count_right(rows: Sequence[Row], cell: Cell) -> int:
    return sum(row.right for row in select_rows(rows, *cell))


def _list_seeds(rows: Sequence[Row], dataset: str) -> str:
    seeds = sorted({row.seed for row in rows if row.dataset == dataset})
    return f"seeds {seeds[0]} to {seeds[-1]}, {len(seeds) * len(FAMILIES)} federations"


def _tabulate_given(rows: Sequence[Row]) -> list[str]:
    """Tabulate the cells whose number is given: a row for each distance, a column for data set and rounds."""
    body = [
        [
            TITLES[distances],
            *(
                _format_right(select_rows(rows, distances, extent, "told", dataset=dataset))
                for dataset in DATASETS
                for extent in ROUNDS
            ),
        ]
        for distances in DISTANCES
    ]
    head = [f"{dataset}, {ROUND_TITLES[extent]}" for dataset in DATASETS for extent in ROUNDS]
    return format_table(["", *head], body)


def _tabulate_numbers(rows: Sequence[Row]) -> list[str]:
    """Tabulate ways to the number, pooled: a row for data set and distances."""
    body = []
    for dataset in DATASETS:
        for distances in ("standardised", "sign"):
            shares = [select_rows(rows, distances, "pooled", each, dataset=dataset) for each in NUMBERS]
            without = [
                select_rows(rows, distances, "pooled", each, dataset=dataset, grouped=False)
                for each in NUMBERS[1:]
            ]
            body.append(
                [
                    f"{dataset}, {TITLES[distances]}",
                    *(f"{np.mean([row.right for row in each]):.3f}" for each in shares),
                    *(format_false_splits(each) for each in without),
                ]
            )
    head = [NUMBER_TITLES[each] for each in NUMBERS]
    return format_table(["", *head, *(f"{each}: false splits" for each in head[1:])], body)


def _format_right(rows: Sequence[Row]) -> str:
    right, ari = np.mean([(row.right, row.ari) for row in rows], axis=0)
    return f"{right:.3f} ({ari:.2f})"


def _format_test(test: SignedRanks) -> str:
    mean = np.mean(test.differences)
    return f"{mean:+.3f}; {test.better}, {test.equal}, {test.worse}; {test.p:.2g}"


def main() -> None:
    """Write the results into the page."""
    results = format_results(select_whole_seeds(factors.read_rows(BOUNDS_CSV)), factors.read_rows())
    PAGE.write_text(replace_text(PAGE.read_text(encoding="utf-8"), BEGIN, END, results), encoding="utf-8")
    print(results)


if __name__ == "__main__":
    main()
