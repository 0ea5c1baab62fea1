"""What a search looks for, and what it has found: the scores of a trial's runs and the best of all trials.

An objective needs the hidden groups or it does not. ARI does: nobody has them outside an experiment, so the
best by ARI, the oracle's, stands beside the best that a practitioner could have found, and never for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grids.search.space import Params


@dataclass(frozen=True)
class Objective:
    """A score of a run; more is better."""

    score: str
    """Its key in `scores.json`."""
    worst: float
    """What a run counts that has no such score, as of a partition without a silhouette."""
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
    scores: Mapping[str, float] | None
    """Objective -> mean over its runs; None if it failed."""
    failed: str | None = None
    """Why it has no scores."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as `search.json` keeps it."""
        return {
            "trial": self.number,
            "params": dict(self.params),
            "scores": None if self.scores is None else dict(self.scores),
            "failed": self.failed,
            "run_ids": list(self.run_ids),
        }


def score(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean over the runs of a trial by each objective; `runs` are the contents of scores.json."""
    means = {}
    for name, objective in OBJECTIVES.items():
        found = [run.get(objective.score) for run in runs]
        means[name] = sum(objective.worst if value is None else value for value in found) / len(found)
    return means


def label_free(objective: str) -> str:
    """Return the objective that the practitioner's best is chosen by, if a search looks for `objective`."""
    return VALIDATION if OBJECTIVES[objective].is_oracle else objective


def best(trials: Iterable[Trial], objective: str) -> dict[str, Trial]:
    """Return the best trial of both kinds, none if all failed.

    Of equals the first is taken; of the oracle's equals, and there it needs no truth, the one that is best
    by the label-free objective.
    """
    known = [(trial, trial.scores) for trial in trials if trial.scores is not None]
    if not known:
        return {}
    free = label_free(objective)
    chosen, _ = max(known, key=lambda found: (found[1][free], -found[0].number))
    oracles, _ = max(known, key=lambda found: (found[1][ARI], found[1][free], -found[0].number))
    return {LABEL_FREE: chosen, ORACLE: oracles}
