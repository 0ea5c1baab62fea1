"""Write the results of `benchmarks.groups.factors` into docs/evidence/factors.md.

    python -m benchmarks.groups.factors_report

Nothing is compared before all parts are run. Seeds are averaged within a family, and families are the
blocks of an exact signed-rank test; over both data sets a family is one block, the mean of the two. Holm's
correction is over the planned comparisons, for each score and data set. In families without groups false
splits are counted.

Shapes: S families with groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.groups import factors
from benchmarks.groups.__main__ import compute_upper_limit
from benchmarks.groups.factors import CELLS, DATASETS, DISTANCES, FAMILIES, NUMBERS, ROUNDS, Cell, Row
from fedgrid.algorithms.updates.source import Matrix
from fedgrid.tracking.figures.panels import Margins, create_panels, share_y
from fedgrid.tracking.figures.style import HUES, paper_style, save
from fedgrid.tracking.scoring.paired_tests import ALPHA, SignedRanks, apply_holm, compare_signed_ranks

PAGE = Path("docs/evidence/factors.md")
FIGURE = Path("docs/evidence/factors/shares.png")
BEGIN, END = "<!-- results: benchmarks.groups.factors_report writes them -->", "<!-- end of results -->"
BOTH = "both"
PAIRS = tuple(product(DISTANCES, ROUNDS))
NUMBER_TITLES = {"told": "given", "silhouette": "silhouette", "evidence": "evidence"}
"""Way to the number of groups, as rows have it -> as the page has it."""
SCORES = {"right": "Exactly right", "ari": "ARI"}


def weigh_difference(one: Iterable[Cell], other: Iterable[Cell]) -> dict[Cell, float]:
    """Compute the weights of cells whose sum is a difference of two means of cells."""
    first, second = list(one), list(other)
    return {cell: (cell in first) / len(first) - (cell in second) / len(second) for cell in CELLS}


OURS: Cell = ("standardised", "pooled", "told")
PLAIN: Cell = ("raw", "one", "told")
STANDARDISED, POOLED = ("standardised", "one", "told"), ("raw", "pooled", "told")
BY_SILHOUETTE, BY_EVIDENCE = ("standardised", "pooled", "silhouette"), ("standardised", "pooled", "evidence")
PLANNED: Mapping[str, Mapping[Cell, float]] = {
    "given: both remedies - neither": weigh_difference([OURS], [PLAIN]),
    "given, one round: standardised - raw": weigh_difference([STANDARDISED], [PLAIN]),
    "given, pooled: standardised - raw": weigh_difference([OURS], [POOLED]),
    "given, raw: pooled - one round": weigh_difference([POOLED], [PLAIN]),
    "given, standardised: pooled - one round": weigh_difference([OURS], [STANDARDISED]),
    "given: both remedies - sum of each": weigh_difference([OURS, PLAIN], [STANDARDISED, POOLED]),
    "all cells: standardised - raw": weigh_difference(
        *([c for c in CELLS if c[0] == name] for name in DISTANCES[::-1])
    ),
    "all cells: pooled - one round": weigh_difference(
        *([c for c in CELLS if c[1] == name] for name in ROUNDS[::-1])
    ),
    "both remedies: given - silhouette": weigh_difference([OURS], [BY_SILHOUETTE]),
    "both remedies: silhouette - evidence": weigh_difference([BY_SILHOUETTE], [BY_EVIDENCE]),
    "both remedies: given - evidence": weigh_difference([OURS], [BY_EVIDENCE]),
}
"""The first is the sentence. The sixth, the interaction, is half of what both do beyond the sum of each."""


@dataclass(frozen=True)
class Comparison:
    """A planned difference over families."""

    test: SignedRanks
    p: float
    """After Holm's correction."""

    @property
    def mean(self) -> float:
        """Mean difference over families."""
        return float(np.mean(self.test.differences))

    @property
    def agreement(self) -> float:
        """Share of the families with a difference that have the sign of most; NaN if there is none."""
        differ = self.test.better + self.test.worse
        return max(self.test.better, self.test.worse) / differ if differ else np.nan


def average_by_family(rows: Sequence[Row], dataset: str, score: str) -> dict[Cell, Matrix]:
    """Average each cell over seeds, shape (S,), by family; `BOTH` is the mean over the data sets."""
    if dataset == BOTH:
        parts = [average_by_family(rows, each, score) for each in DATASETS]
        return {cell: np.mean([part[cell] for part in parts], axis=0) for cell in CELLS}
    values: dict[tuple[Cell, str], list[float]] = {}
    for row in rows:
        if row.dataset == dataset and FAMILIES[row.family].num_groups:
            cell = row.distances, row.rounds, row.number
            values.setdefault((cell, row.family), []).append(getattr(row, score))
    names = sorted({family for _, family in values})
    return {cell: np.array([np.mean(values[cell, name]) for name in names]) for cell in CELLS}


def compare_cells(scores: Mapping[Cell, Matrix]) -> dict[str, Comparison]:
    """Test the planned comparisons, with Holm's correction over them."""
    tests = {}
    for name, weights in PLANNED.items():
        differences_S = np.sum([weights[cell] * scores[cell] for cell in CELLS], axis=0)
        tests[name] = compare_signed_ranks(differences_S, np.zeros_like(differences_S))
    corrected = apply_holm([test.p for test in tests.values()])
    return {name: Comparison(test, p) for (name, test), p in zip(tests.items(), corrected, strict=True)}


def format_sentence(rows: Sequence[Row]) -> str:
    """Format what the comparisons of exactly right federations allow to say."""
    comparisons = {name: compare_cells(average_by_family(rows, name, "right")) for name in (*DATASETS, BOTH)}
    ours, plain = ([row.right for row in select_rows(rows, *cell)] for cell in (OURS, PLAIN))
    first = next(iter(PLANNED))
    means = [comparisons[name][first].mean for name in DATASETS]
    if min(means) <= 0:
        verdict = "The sentence is refuted: on a data set the mean difference is not positive"
    elif comparisons[BOTH][first].p >= ALPHA:
        verdict = "The sentence is not shown over families"
    else:
        verdict = "The sentence holds over these families, and on each data set it has the same sign"
    shown = [f"{name} ({each.mean:+.3f})" for name, each in comparisons[BOTH].items() if each.p < ALPHA]
    return (
        f"Given the number of groups, Ward's tree finds exactly the groups in {sum(ours)} of {len(ours)} "
        f"federations on standardised distances of all rounds, in {sum(plain)} on raw ones of the last. "
        f"{verdict}. Shown on both data sets together: {'; '.join(shown) or 'nothing'}."
    )


def format_results(rows: Sequence[Row]) -> str:
    """Format what stands between the page's marks."""
    missing = {
        part: set(factors.list_federations([part])) - factors.list_trained(rows) for part in factors.PARTS
    }
    if any(missing.values()):
        state = ", ".join(f"part {part}: {len(each)} federations to run" for part, each in missing.items())
        return f"Not compared before all parts are run ({state}).\n"
    lines = [format_sentence(rows), "", f"![Share exactly right]({FIGURE.parent.name}/{FIGURE.name})", ""]
    lines += ["Share exactly right, mean ARI and mean number of clusters, of families with groups:", ""]
    lines += _tabulate_pairs(rows, NUMBERS, grouped=True)
    for score, label in SCORES.items():
        comparisons = [compare_cells(average_by_family(rows, name, score)) for name in (*DATASETS, BOTH)]
        lines += [f"{label}: mean difference; families better, equal, worse; agreeing; p (Holm):", ""]
        cells = [[name, *(_format_comparison(each[name]) for each in comparisons)] for name in PLANNED]
        lines += format_table(["", *DATASETS, BOTH], cells)
    lines += ["False splits of federations without groups (at most: upper 95 % limit of the share):", ""]
    return "\n".join(lines + _tabulate_pairs(rows, NUMBERS[1:], grouped=False))


def draw_shares(rows: Sequence[Row]) -> Figure:
    """Draw the share exactly right: a panel a data set, a line a way to the number of groups."""
    with paper_style():
        colours = dict(zip(NUMBERS, HUES, strict=False))
        legend = [
            Line2D([], [], color=colour, marker="o", label=NUMBER_TITLES[number])
            for number, colour in colours.items()
        ]
        figure, places = create_panels(
            len(DATASETS), 2, 1.4, margins=Margins(head=0.2, foot=0.45), legend=legend
        )
        for axes, dataset in zip(places, DATASETS, strict=True):
            scores = average_by_family(rows, dataset, "right")
            for shift, (number, colour) in zip((-0.08, 0, 0.08), colours.items(), strict=True):
                shares = [scores[*pair, number].mean() for pair in PAIRS]
                for first in (0, 2):
                    places_x = [first + shift, first + 1 + shift]
                    axes.plot(places_x, shares[first : first + 2], color=colour, marker="o")
            axes.set_xticks(range(len(PAIRS)), [f"{first},\n{second}" for first, second in PAIRS])
            axes.set(title=dataset, xlim=(-0.5, len(PAIRS) - 0.5))
        share_y(places, 1.05, (0, 0.25, 0.5, 0.75, 1), "share exactly right")
    return figure


def insert_results(page: str, rows: Sequence[Row]) -> str:
    """Replace the results between the page's marks."""
    return replace_text(page, BEGIN, END, format_results(rows))


def replace_text(page: str, begin: str, end: str, text: str) -> str:
    """Replace what stands between two marks of a page."""
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text}{end}{rest.partition(end)[2]}"


def select_rows(
    rows: Sequence[Row], *cell: str, dataset: str | None = None, grouped: bool = True
) -> list[Row]:
    """Select a cell's rows, of families with groups or without; of all data sets if none is named."""
    return [
        row
        for row in rows
        if row[3:6] == cell
        and dataset in (None, row.dataset)
        and (FAMILIES[row.family].num_groups > 0) == grouped
    ]


def _tabulate_pairs(rows: Sequence[Row], numbers: Sequence[str], *, grouped: bool) -> list[str]:
    """Tabulate by distances and rounds, with a column for each data set and way to the number."""
    body = []
    for pair in PAIRS:
        row_groups = [
            select_rows(rows, *pair, number, dataset=dataset, grouped=grouped)
            for dataset in DATASETS
            for number in numbers
        ]
        body.append(
            [
                ", ".join(pair),
                *(_format_means(each) if grouped else format_false_splits(each) for each in row_groups),
            ]
        )
    return format_table(
        ["", *(f"{dataset}, {NUMBER_TITLES[number]}" for dataset in DATASETS for number in numbers)], body
    )


def _format_means(rows: Sequence[Row]) -> str:
    right, ari, clusters = np.mean([(row.right, row.ari, row.clusters) for row in rows], axis=0)
    return f"{right:.3f}, {ari:.2f}, {clusters:.1f}"


def format_false_splits(rows: Sequence[Row]) -> str:
    """Format how many federations without groups are cut up, and the upper 95 % limit of their share."""
    count = sum(not row.right for row in rows)
    return f"{count} of {len(rows)} (at most {compute_upper_limit(count, len(rows)):.1%})"


def _format_comparison(comparison: Comparison) -> str:
    test = comparison.test
    counts = f"{test.better}, {test.equal}, {test.worse}"
    agreement = "–" if np.isnan(comparison.agreement) else f"{comparison.agreement:.0%}"
    return f"{comparison.mean:+.3f}; {counts}; {agreement}; {test.p:.2g} ({comparison.p:.2g})"


def format_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """Format a table as lines of Markdown, with an empty line after it."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body)]
    return [*lines, ""]


def main() -> None:
    """Write the results into the page and, once all parts are run, the figure."""
    rows = factors.read_rows()
    if set(factors.list_federations()) <= factors.list_trained(rows):
        save(draw_shares(rows), FIGURE)
    page = insert_results(PAGE.read_text(encoding="utf-8"), rows)
    PAGE.write_text(page, encoding="utf-8")
    print(format_results(rows))


if __name__ == "__main__":
    main()
