"""The critical-difference diagram of a comparison."""

from functools import partial

from fedgrid.tracking.figures.rows import critical_difference
from fedgrid.tracking.report.page import CaptionedFigure
from fedgrid.tracking.scoring.paired_tests import ALPHA
from fedgrid.tracking.scoring.statistics import Comparison


def build_rank_diagram(name: str, result: Comparison, first: str = "1 is best") -> CaptionedFigure:
    """Build the diagram of a comparison by the measure `name`; `first` is the meaning of rank 1."""
    ranks = dict(zip(result.algorithms, result.ranks, strict=True))
    words = [f"Average ranks {result.scope}; {first}."]
    if result.pairs:
        words.append(
            "Critical-difference diagram: a bar joins algorithms between which the exact signed-rank test "
            f"with Holm's correction finds no significant difference (level {ALPHA})."
        )
    return CaptionedFigure(
        f"ranks-{name.replace(' ', '-')}",
        f"Average ranks: {name}",
        " ".join([*words, *result.remarks]),
        partial(critical_difference, ranks, result.cliques, result.num_scenarios, first),
    )
