"""Objectives of a search: the score of a trial from its runs, and the best of all trials.

ARI needs the hidden groups, which are known only in an experiment. So the best by ARI, the oracle's, is
reported in addition to the best by an objective without labels, and never instead of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedgrid.grids.search.space import Params


@dataclass(frozen=True)
class Objective:
    """A score of a run; higher is better."""

    score: str
    """Its key in `scores.json`."""
    worst: float
    """Value of a run without this score; a single cluster has no silhouette."""
    words: str
    """Name in headings of figures."""
    is_oracle: bool = False
    """Whether it needs the hidden groups."""


VALIDATION, ACCURACY, SILHOUETTE, ARI = "validation", "accuracy", "silhouette", "ari"
OBJECTIVES = {
    VALIDATION: Objective("personalised_f1", 0.0, "mean personalised F1 on validation images"),
    ACCURACY: Objective("personalised_accuracy", 0.0, "mean personalised accuracy on validation images"),
    SILHOUETTE: Objective("silhouette", -1.0, "mean silhouette of the last partition"),
    ARI: Objective("ari", -1.0, "ARI of the last partition", is_oracle=True),
}
LABEL_FREE, ORACLE = "label_free", "oracle"
"""The two kinds of best trials."""


@dataclass(frozen=True)
class Trial:
    """One choice of settings, with the scores of its runs."""

    number: int
    """Number from 1; 0 is that of the defaults, in a search that starts with them."""
    params: Params
    run_ids: tuple[str, ...]
    scores: Mapping[str, float | None] | None
    """Objective -> mean over its runs, None if no run has it. None as a whole if the trial failed or was
    stopped."""
    failed: str | None = None
    """Why it has no scores."""
    stopped_at: float | None = None
    """Where it was stopped early: a share of the rounds, or from 1 on a round."""
    scores_there: Mapping[str, float | None] | None = None
    """Its scores when it was stopped, as `scores`; not comparable with those of finished runs."""

    def rank_value(self, objective: str) -> float | None:
        """Compute the value that is reported to the searcher and ranked; None for a trial without scores."""
        return None if self.scores is None else score_or_worst(self.scores, objective)

    def objective_score(self, objective: str) -> float | None:
        """Find its score for an objective, None if it has none."""
        return (self.scores or {}).get(objective)

    def to_dict(self) -> dict[str, Any]:
        """Convert it to an entry of `search.json`."""
        return {
            "trial": self.number,
            "params": dict(self.params),
            "scores": None if self.scores is None else dict(self.scores),
            "failed": self.failed,
            "stopped_at": self.stopped_at,
            "scores_there": None if self.scores_there is None else dict(self.scores_there),
            "run_ids": list(self.run_ids),
        }


def score_or_worst(scores: Mapping[str, float | None], objective: str) -> float:
    """Compute the value of a trial for an objective: the worst one, if it has no such score."""
    score = scores[objective]
    return OBJECTIVES[objective].worst if score is None else score


def compute_means(runs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Compute the mean over the runs of a trial for each objective.

    Args:
        runs: Contents of the runs' `scores.json`.

    Returns:
        Objective -> mean, None if no run has the score.
    """
    means: dict[str, float | None] = {}
    for name, objective in OBJECTIVES.items():
        scores = [run.get(objective.score) for run in runs]
        # A run without the score counts as worst: a mean over the others would reward settings that fail.
        values = [objective.worst if score is None else score for score in scores]
        means[name] = None if all(score is None for score in scores) else sum(values) / len(values)
    return means


def find_label_free(objective: str) -> str:
    """Find the objective of the label-free best in a search for `objective`."""
    return VALIDATION if OBJECTIVES[objective].is_oracle else objective


def find_best(trials: Iterable[Trial], objective: str) -> dict[str, Trial]:
    """Find the best trial of each kind, if there is one.

    Ties go to the first trial; the oracle's ties are first broken by the label-free objective.
    """
    free = find_label_free(objective)
    trials = list(trials)
    bests = {
        LABEL_FREE: _first_best([trial for trial in trials if trial.objective_score(free) is not None], free),
        ORACLE: _first_best([trial for trial in trials if trial.objective_score(ARI) is not None], ARI, free),
    }
    return {kind: trial for kind, trial in bests.items() if trial is not None}


def _first_best(trials: Sequence[Trial], *objectives: str) -> Trial | None:
    """Find the trial with the highest values, the first of several; None of none."""

    def rank_trial(trial: Trial) -> tuple[list[float | None], int]:
        """Compute the sort key of a trial."""
        # The negative number makes the first of equal trials the greatest.
        return [trial.rank_value(name) for name in objectives], -trial.number

    return max(trials, key=rank_trial, default=None)
