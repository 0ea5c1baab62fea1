"""Measures by which runs are compared: a name, the number of a result, and whether more is better.

A measure is declared once. Those in `CLUSTERING` and `PUBLISHED_CLUSTERING` are columns of the table of all
scenarios; a curve of `tracking.scoring.scores.compute_curves` becomes a measure by `mean_over_rounds` or
`last_round`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan, nan
from operator import itemgetter
from typing import Any

import numpy as np

from fedgrid.tracking.arrays import Score, group_by, to_finite
from fedgrid.tracking.names import SHORT_NAMES, nearest_score
from fedgrid.tracking.scoring import scores
from fedgrid.tracking.scoring.client_scores import HARM, RIVALS, carry_forward, compute_worse_share
from fedgrid.tracking.scoring.run import Run, Scenario
from fedgrid.tracking.scoring.scores import DECLARED
from fedgrid.tracking.scoring.study import Study


@dataclass(frozen=True)
class Measure:
    """A number of a finished run, by which runs are compared."""

    name: str
    """The heading of its column."""
    formula: Callable[[Run], float]
    """Function that reads or computes the number from a run; NaN where the run has none."""
    highest: bool | None = True
    """Whether more is better; None if neither is."""
    digits: int = 3


def mean_over_rounds(name: str, curve: str, *, last: int = 0) -> Measure:
    """Build the measure of a curve's mean over all rounds, or over the `last` ones."""
    return Measure(name, partial(Run.mean, curve=curve, last=last), _is_more_better(curve))


def last_round(name: str, curve: str, *, highest: bool | None = True, digits: int = 3) -> Measure:
    """Build the measure of a curve's last value.

    Args:
        name: heading of the measure's column.
        curve: of `tracking.scoring.scores.compute_curves`.
        highest: whether more of a recorded number is better (default); a declared score says so itself.
        digits: decimal digits in tables, 3 by default.
    """
    return Measure(name, partial(Run.last, curve=curve), _is_more_better(curve, highest), digits)


def _is_more_better(curve: str, otherwise: bool | None = True) -> bool | None:
    """Look up whether more of a curve's score is better; `otherwise` of a recorded number."""
    return DECLARED[curve].highest if curve in DECLARED else otherwise


def final_score(name: str, score: str, *, highest: bool | None = None, digits: int = 3) -> Measure:
    """Build the measure of a number of `Run.scores`, NaN where it is not defined.

    Args:
        name: heading of the measure's column.
        score: key in `Run.scores`.
        highest: whether more is better; None (default) if neither is.
        digits: decimal digits in tables, 3 by default.
    """

    def read_score(result: Run) -> float:
        """Read the score of a run, None as NaN."""
        value = result.scores.get(score)
        return nan if value is None else float(value)

    return Measure(name, read_score, highest, digits)


def find_measure(score: str, *studies: Study) -> Measure:
    """Find the measure of a score: the last value of a curve, or a number of `Run.scores`.

    Raises:
        ValueError: no study has it; names the nearest, or the key that asks for it.
    """
    results = [result for study in studies for result in study.finished]
    # The order matters: some names are scores, curves and final numbers at once, and the first is declared
    # best.
    if score in WORSE:
        return WORSE[score]
    if score in DECLARED:
        _check_recorded(DECLARED[score], results)
        return last_round(format_heading(score), score)
    if any(score in result.curves for result in results):
        return recorded_number(score)
    names = dict.fromkeys((*DECLARED, *(name for run in results for name in (*run.curves, *run.scores))))
    if score not in names:
        if short := DECLARED.get(SHORT_NAMES.get(score.lower(), "")):
            # `acc` may mean a score that records lack; the key that adds it is a better hint than a list of
            # names.
            _check_recorded(short, results)
        others = nearest_score(score, names) or f"there are {', '.join(names)}"
        raise ValueError(f"no score '{score}'; {others.rstrip()}")
    return final_score(format_heading(score), score)


def _check_recorded(score: Score, results: Sequence[Run]) -> None:
    """Raise ValueError if tests have a score only with a key of `evaluation` that no run has set."""
    key = f"evaluation.{score.needs}"
    is_available = (run.values.get(key) or not isnan(run.last(score.name)) for run in results)
    if score.needs and results and not any(is_available):
        raise ValueError(
            f"no run has '{score.name}': tests give it if {key} is true; run the grid with {key}=true"
        )


def recorded_number(name: str) -> Measure:
    """Build the measure of a recorded number's last value, which perhaps only some algorithms have."""
    return Measure(format_heading(name), lambda run: run.last(name) if name in run.curves else nan, None)


def list_own_curves(study: Study) -> tuple[str, ...]:
    """List the numbers that algorithms of a study declare of their own."""
    names = (name for result in study.finished for name in scores.find_own_numbers(result.curves))
    return tuple(dict.fromkeys(names))


def format_heading(score: str) -> str:
    """Format a score's name as a heading: `personalised accuracy`, `ARI`."""
    acronyms = ("ari", "ami", "auc", "ece", "f1", "pf1", "gf1", "r2")
    return " ".join(word.upper() if word in acronyms else word for word in score.split("_"))


def read_scores_by_seed(study: Study, measure: Measure) -> dict[tuple[Scenario, int], float]:
    """Compute a measure of the finished runs of one algorithm, by scenario and seed, without NaNs."""
    return {
        (result.scenario, result.seed): value
        for result in study.finished
        if not isnan(value := measure.formula(result))
    }


def average_by_scenario(scores: Mapping[tuple[Any, int], float]) -> dict[Any, float]:
    """Compute the mean over its seeds for each scenario, of scores by scenario and seed."""
    places = group_by(scores, itemgetter(0))
    return {scenario: float(np.mean([scores[at] for at in own])) for scenario, own in places.items()}


def average_by_seed(scores: Mapping[tuple[Any, int], float]) -> list[float]:
    """Compute the mean over scenarios for each seed, of scores by scenario and seed."""
    return [float(np.mean([scores[at] for at in own])) for own in group_by(scores, itemgetter(1)).values()]


def select_recorded(study: Study, chosen: Iterable[Measure]) -> tuple[Measure, ...]:
    """Select the measures that any finished run has."""
    return tuple(
        measure for measure in chosen if any(not isnan(measure.formula(result)) for result in study.finished)
    )


AGAINST_TRUTH = ("ari", "ami", "homogeneity", "completeness")
MEANS = [mean_over_rounds(f"mean {format_heading(curve)}", curve) for curve in AGAINST_TRUTH]
FINALS = [last_round(f"final {format_heading(curve)}", curve) for curve in AGAINST_TRUTH]
AGAINST_GROUPS = (*MEANS, *FINALS)
"""Measures in which algorithms that never cluster have no rank."""
MEAN_ARI, FINAL_ARI = MEANS[0], FINALS[0]
CLUSTERING_ROUND = final_score("clustering round", "clustering_round", digits=1)
LAST_CHANGE = final_score("round of the last change", "last_change_round", digits=1)
CLUSTERS = last_round("clusters at the end", "clusters", digits=1)
SMALLEST_CLUSTER = last_round("smallest cluster at the end", "smallest_cluster", digits=1)
CLIENTS_ALONE = last_round("clients alone at the end", "clients_alone", digits=1)

RAND_PUBLISHED = final_score("RAND as published", "published_rand", highest=True, digits=2)
ROUND_PUBLISHED = final_score("round as published", "published_round", digits=1)

CLUSTERING = (
    *(*MEANS, *FINALS, CLUSTERS, SMALLEST_CLUSTER, CLIENTS_ALONE),
    *(CLUSTERING_ROUND, LAST_CHANGE),
)
PUBLISHED_CLUSTERING = {
    "RAND": RAND_PUBLISHED,
    "AMI": final_score("AMI as published", "published_ami", highest=True, digits=2),
    "COM": final_score("COM as published", "published_com", highest=True, digits=2),
}
"""Heading in the published Table 1 -> measure."""

PF1_MEAN_PUBLISHED = mean_over_rounds("mean PF1 as published", "published_pf1")
PF1_LAST_PUBLISHED = last_round("last PF1 as published", "published_pf1")
GF1_LAST_PUBLISHED = last_round("last GF1 as published", "published_gf1")
PF1_LAST = last_round("last personalised F1", "personalised_f1")
GF1_LAST = last_round("last generalised F1", "generalised_f1")
PR2_LAST = last_round("last personalised R2", "personalised_r2")
GR2_LAST = last_round("last generalised R2", "generalised_r2")
PA_LAST = last_round("last personalised accuracy", "personalised_accuracy")
GA_LAST = last_round("last generalised accuracy", "generalised_accuracy")
LOCAL_LAST = last_round("last local accuracy", "last_local_accuracy")
SILHOUETTE_LAST = last_round("last silhouette", "silhouette")
GLOBAL_LAST = last_round("last global accuracy", "global_accuracy")
GLOBAL_OWN_LAST = last_round("last global accuracy, own images", "global_own_accuracy")
EPSILON = last_round("epsilon", "epsilon", highest=False)
"""Largest epsilon of any client, of (epsilon, delta)-differential privacy; only runs with noise have one."""


def choose_f1_measures(study: Study) -> tuple[Measure, Measure]:
    """Choose the measures of last personalised and generalised F1, or R2 of runs that predict numbers.

    The authors' archive has only F1 over the union of classes, and no test of the clusters' models on the
    server's images. So the published conventions are measured where no run has the right ones.
    """
    for personalised, generalised in ((PF1_LAST, GF1_LAST), (PR2_LAST, GR2_LAST)):
        if select_recorded(study, (personalised,)):
            return personalised, generalised
    return PF1_LAST_PUBLISHED, GF1_LAST_PUBLISHED


WORSE = {score.name: final_score(format_heading(score.name), score.name, highest=False) for score in HARM}
"""Scores of `add_harm`, by their names there."""


def add_harm(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Add the scores of `HARM` to the finished runs of a grid.

    They are None where the grid has no other run to compare with; of several, the first one counts.
    """
    # The last test of each client: not every round tests every client.
    last = {run.run_id: carry_forward(run.accuracy_RK)[-1] for run in runs if run.is_finished}
    rivals = {
        (run.method, run.scenario, run.seed): run.run_id
        # Reversed, so that of several such runs the first one is left in the dictionary.
        for run in reversed(runs)
        if run.is_finished and not run.is_superseded
    }

    def compute_share(run: Run, rival: str) -> float:
        """Compute the share of clients that are worse off than in the rival's run; NaN without such a run."""
        other = rivals.get((rival, run.scenario, run.seed), run.run_id)
        # SOLO is not compared with itself, which would be no harm at all.
        return nan if other == run.run_id else compute_worse_share(last[run.run_id], last[other])

    def add_shares(run: Run) -> Run:
        """Add the shares against all rivals to a run's scores."""
        shares = {name: compute_share(run, rival) for name, rival in RIVALS.items()}
        return replace(run, scores={**run.scores, **to_finite(shares)})

    return tuple(add_shares(run) if run.is_finished else run for run in runs)


AXIS_MEASURES = (PA_LAST, FINAL_ARI)


def list_axis_measures(study: Study) -> tuple[Measure, ...]:
    """List the measures to show over the values of an axis: `AXIS_MEASURES`, and others that any run has."""
    return (*AXIS_MEASURES, *select_recorded(study, (LOCAL_LAST, GA_LAST, GLOBAL_LAST, SILHOUETTE_LAST)))
