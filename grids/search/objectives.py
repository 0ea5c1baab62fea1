"""What a search looks for, and what it has found: the scores of a trial's runs and the best of all trials.

An objective needs the hidden groups or it does not. ARI does: nobody has them outside an experiment, so the
best by ARI, the oracle's, stands beside the best that a practitioner could have found, and never for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedgrid.grids.search.space import Params


@dataclass(frozen=True)
class Objective:
    """A score of a run; more is better."""

    score: str
    """Its key in `scores.json`."""
    worst: float
    """What a run counts that has no such score, as one cluster has no silhouette."""
    words: str
    is_oracle: bool = False


VALIDATION, SILHOUETTE, ARI = "validation", "silhouette", "ari"
OBJECTIVES = {
    VALIDATION: Objective("personalised_f1", 0.0, "mean personalised F1 on validation images"),
    SILHOUETTE: Objective("silhouette", -1.0, "mean silhouette of the last partition"),
    ARI: Objective("ari", -1.0, "ARI of the last partition", is_oracle=True),
}
LABEL_FREE, ORACLE = "label_free", "oracle"
"""The two kinds of a best."""


@dataclass(frozen=True)
class Trial:
    """One setting that a search has tried."""

    number: int
    """From 1."""
    params: Params
    run_ids: tuple[str, ...]
    scores: Mapping[str, float | None] | None
    """Objective -> mean over its runs, None where none of them has it; None as a whole if it failed."""
    failed: str | None = None
    """Why it has no scores."""
    stopped_at: float | None = None
    """The share of the rounds after which it was stopped, being worse than others there."""
    scores_there: Mapping[str, float | None] | None = None
    """What it had then, as `scores`; not to be compared with those of whole runs."""

    def value(self, objective: str) -> float | None:
        """Return what a searcher is told, and the best is chosen by; None of a trial without scores."""
        return None if self.scores is None else value(self.scores, objective)

    def has(self, objective: str) -> bool:
        """Return whether it was scored by this."""
        return self.scores is not None and self.scores[objective] is not None

    def as_dict(self) -> dict[str, Any]:
        """Return it as `search.json` keeps it."""
        return {
            "trial": self.number,
            "params": dict(self.params),
            "scores": None if self.scores is None else dict(self.scores),
            "failed": self.failed,
            "stopped_at": self.stopped_at,
            "scores_there": None if self.scores_there is None else dict(self.scores_there),
            "run_ids": list(self.run_ids),
        }


def value(scores: Mapping[str, float | None], objective: str) -> float:
    """Return what a trial is worth by an objective: the worst, if it has no such score."""
    found = scores[objective]
    return OBJECTIVES[objective].worst if found is None else found


def score(runs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the mean over the runs of a trial by each objective; `runs` are the contents of scores.json."""
    return {name: _mean([run.get(of.score) for run in runs], of.worst) for name, of in OBJECTIVES.items()}


def _mean(found: Sequence[float | None], worst: float) -> float | None:
    if all(value is None for value in found):
        return None
    return sum(worst if value is None else value for value in found) / len(found)


def label_free(objective: str) -> str:
    """Return the objective that the practitioner's best is chosen by, if a search looks for `objective`."""
    return VALIDATION if OBJECTIVES[objective].is_oracle else objective


def best(trials: Iterable[Trial], objective: str) -> dict[str, Trial]:
    """Return the best trial of each kind, if there is one.

    Of equals the first is taken, but of the oracle's equals the one that is best by the label-free
    objective, too.
    """
    free = label_free(objective)
    scored = [trial for trial in trials if trial.scores is not None]
    found = {
        LABEL_FREE: _first_best([trial for trial in scored if trial.has(free)], free),
        ORACLE: _first_best(scored, ARI, free),
    }
    return {kind: trial for kind, trial in found.items() if trial is not None}


def _first_best(trials: Sequence[Trial], *objectives: str) -> Trial | None:
    def rank(trial: Trial) -> tuple[list[float | None], int]:
        return [trial.value(name) for name in objectives], -trial.number

    return max(trials, key=rank, default=None)
