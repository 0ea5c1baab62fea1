"""The critical-difference diagram of a comparison, as a figure of a report."""

from functools import partial

from fedgrid.tracking import figures
from fedgrid.tracking.report.page import Plate
from fedgrid.tracking.scoring.paired_tests import ALPHA
from fedgrid.tracking.scoring.statistics import Comparison


def diagram(name: str, result: Comparison, first: str = "1 is best") -> Plate:
    """Return the diagram of a comparison by the measure `name`; `first` says what rank 1 is."""
    ranks = dict(zip(result.algorithms, result.ranks, strict=True))
    bars = (
        "Critical-difference diagram: a bar joins algorithms between which the exact signed-rank test with "
        f"Holm's correction finds no significant difference (level {ALPHA}).",
    )
    return Plate(
        f"ranks-{name.replace(' ', '-')}",
        f"Average ranks: {name}",
        " ".join(
            [
                f"Average ranks {result.where}; {first}.",
                *(bars if result.pairs else ()),
                *result.remarks,
            ]
        ),
        partial(figures.critical_difference, ranks, result.cliques, result.num_scenarios, first),
    )
