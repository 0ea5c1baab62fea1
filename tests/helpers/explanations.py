"""Scores of explanations: those of the authors' 15-client runs, and small ones by hand."""

from functools import cache

from fedgrid.algorithms.registry import find_paper_row
from fedgrid.tracking.explained.scores import ExplanationMeans
from fedgrid.tracking.papers.ocfl import numbers
from tests.helpers.studies import IDS


@cache
def load_published() -> tuple[ExplanationMeans, ...]:
    """Load the published scores of runs, as if each run had one model."""
    return tuple(
        ExplanationMeans(scenario, IDS[algorithm], algorithm, on, *scores)
        for (scenario, algorithm, on), scores in numbers.read_explanations().items()
    )


def make_explained(
    algorithm: str,
    insertion: float,
    deletion: float,
    *,
    on: str = "members",
    dataset: str = "mnist",
    split: str = "overlapping-balanced",
) -> ExplanationMeans:
    """Make the scores of one run's explanations.

    Args:
        algorithm: its id, or what papers call it.
        insertion: score of insertion.
        deletion: score of deletion.
        on: which images are explained.
        dataset: the run's data set.
        split: the run's split.
    """
    scenario = (dataset, 15, split)
    method = IDS.get(algorithm, algorithm)
    return ExplanationMeans(scenario, method, find_paper_row(method), on, insertion, deletion)
