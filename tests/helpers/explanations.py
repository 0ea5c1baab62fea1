"""Scores of explanations: those of the authors' 15-client runs, and small ones by hand."""

from functools import cache

from fedgrid.tracking.explained.scores import Explained
from fedgrid.tracking.papers.ocfl import numbers


@cache
def theirs() -> tuple[Explained, ...]:
    """The published scores of runs, as if each run had one model."""
    return tuple(
        Explained(scenario, algorithm, algorithm, on, *scores)
        for (scenario, algorithm, on), scores in numbers.explanations().items()
    )


def explained(
    algorithm: str,
    insertion: float,
    deletion: float,
    *,
    on: str = "members",
    dataset: str = "mnist",
    split: str = "overlapping-balanced",
) -> Explained:
    scenario = (dataset, 15, split)
    return Explained(scenario, algorithm, algorithm, on, insertion, deletion)
