"""Scores of explanations, compared between algorithms in the right direction and as published.

Source: Zuziak et al. 2025, arXiv:2509.01587, section 5: scores of a run are plain means over its clusters'
models; ranks are of algorithms in a scenario. The paper ranks deletion as if high were good. Here low is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from operator import attrgetter
from statistics import fmean

from fedgrid.tracking.arrays import group_by
from fedgrid.tracking.names import AS_PUBLISHED
from fedgrid.tracking.scoring.measures import average_by_scenario
from fedgrid.tracking.scoring.paired_tests import ALPHA
from fedgrid.tracking.scoring.run import Scenario
from fedgrid.tracking.scoring.statistics import Comparison, ScoresByAlgorithm, compare_scores

DISTRIBUTIONS = {
    "members": "images of the cluster's own clients",
    "others": "images of the other clients",
    "server": "the server's images",
}
"""Key of a set of explained images -> its description."""
BASELINE = "fedavg"
"""The algorithm without clusters, against which a gain of clustering is measured."""


@dataclass(frozen=True)
class ExplanationMeans:
    """Mean scores of one model's explanations of the images of one distribution."""

    scenario: Scenario
    algorithm: str
    """`Run.algorithm`."""
    published: str
    """`Run.published`."""
    on: str
    """A key of `DISTRIBUTIONS`."""
    insertion: float
    deletion: float
    seed: int = 0
    weight: float = 1.0
    """Weight in the mean of its run: the number of images; 1 of published ones, whose clusters count
    alike."""
    excess: float = nan
    """The gap minus that of the same images in a random order. NaN of published ones, like all below."""
    relative_insertion: float = nan
    """Mean of insertion divided by the full image's probability."""
    relative_deletion: float = nan
    relative_excess: float = nan
    p_full: float = nan
    """Mean probability of the full image."""
    empty: float = nan
    """Share of empty maps."""
    accuracy: float = nan
    unseen_gap: float = nan
    """The gap over images that no client of the cluster trains on."""
    unseen: float = nan
    """Number of such images."""

    @property
    def gap(self) -> float:
        """Insertion minus deletion."""
        return self.insertion - self.deletion


@dataclass(frozen=True)
class ExplanationScore:
    """A score of explanations."""

    name: str
    formula: Callable[[ExplanationMeans], float]
    highest: bool
    """Whether more is better."""
    weight: Callable[[ExplanationMeans], float] = attrgetter("weight")
    """Weight of a model in the mean of its run."""


INSERTION = ExplanationScore("insertion", attrgetter("insertion"), highest=True)
DELETION = ExplanationScore("deletion", attrgetter("deletion"), highest=False)
GAP = ExplanationScore("gap", attrgetter("gap"), highest=True)
SCORES = (INSERTION, DELETION, GAP)
EXCESS = ExplanationScore("excess", attrgetter("excess"), highest=True)
UNSEEN_GAP = ExplanationScore(
    "gap of unseen", attrgetter("unseen_gap"), highest=True, weight=attrgetter("unseen")
)
OWN_SCORES = (
    INSERTION,
    DELETION,
    GAP,
    EXCESS,
    ExplanationScore("insertion / p", attrgetter("relative_insertion"), highest=True),
    ExplanationScore("deletion / p", attrgetter("relative_deletion"), highest=False),
    ExplanationScore("excess / p", attrgetter("relative_excess"), highest=True),
    UNSEEN_GAP,
    ExplanationScore("p", attrgetter("p_full"), highest=True),
    ExplanationScore("empty", attrgetter("empty"), highest=False),
    ExplanationScore("accuracy", attrgetter("accuracy"), highest=True),
)
"""Scores of runs computed here; the published ones have `SCORES` alone."""


def compute_run_means(
    explained: Sequence[ExplanationMeans], on: str, score: ExplanationScore
) -> ScoresByAlgorithm:
    """Compute the mean over the models of each run, by algorithm, scenario and seed; without NaNs.

    An algorithm without any score is there too, with no scenario.
    """
    means: dict[str, dict[tuple[Scenario, int], float]] = {model.algorithm: {} for model in explained}
    shown = (model for model in explained if model.on == on)
    runs = group_by(shown, attrgetter("algorithm", "scenario", "seed"))
    for (algorithm, *place), models in runs.items():
        # A run whose models have no score, as without images of others, must not make its scenario NaN for
        # all.
        if not isnan(mean := _weighted_mean(models, score)):
            means[algorithm][tuple(place)] = mean
    return means


def _weighted_mean(models: Sequence[ExplanationMeans], score: ExplanationScore) -> float:
    """Compute the weighted mean of a score; a model of no weight does not count, even if it is NaN."""
    counted = [(score.formula(model), weight) for model in models if (weight := score.weight(model))]
    if not counted:
        return nan
    if all(weight == counted[0][1] for _, weight in counted):
        # Weights would round the mean in another way, and the published means are plain ones.
        return fmean(value for value, _ in counted)
    return fmean([value for value, _ in counted], [weight for _, weight in counted])


def compare_explanations(
    explained: Sequence[ExplanationMeans], on: str, score: ExplanationScore, *, as_published: bool = False
) -> Comparison:
    """Compare algorithms by a score over all scenarios of `explained`.

    A missing score drops its scenario; an algorithm with less than half of them is dropped itself. The
    remarks say so.

    Args:
        explained: the mean scores of the runs' models.
        on: a key of `DISTRIBUTIONS`: the images that were explained.
        score: one of `SCORES` or `OWN_SCORES`.
        as_published: rank the highest value first for every score, deletion too, as the paper does (default
            False).
    """
    suffix = f" {AS_PUBLISHED}" if as_published else ""
    return compare_scores(
        compute_run_means(explained, on, score),
        f"{score.name} on {on}{suffix}",
        highest=as_published or score.highest,
        num_scenarios=len({model.scenario for model in explained}),
        find_dataset=lambda scenario: str(scenario[0]),
    )


def compute_published_ranks(scores: ScoresByAlgorithm) -> Mapping[str, float]:
    """Compute the mean ranks as published, 1 for the highest score, NaN for an algorithm without any.

    In each scenario only the algorithms with a score are ranked, so that the means of several algorithms are
    over different scenarios and against different rivals.
    """
    from scipy.stats import rankdata

    ranks: dict[str, list[float]] = {algorithm: [] for algorithm in scores}
    means = {name: average_by_scenario(own) for name, own in scores.items()}
    for scenario in dict.fromkeys(scenario for own in means.values() for scenario in own):
        present = [algorithm for algorithm, own in means.items() if scenario in own]
        placed = rankdata([-means[algorithm][scenario] for algorithm in present])
        for algorithm, rank in zip(present, placed, strict=True):
            ranks[algorithm].append(float(rank))
    return {algorithm: fmean(own_ranks) if own_ranks else nan for algorithm, own_ranks in ranks.items()}


def summarise_gap(by_gap: Comparison) -> str:
    """Summarise in a sentence whether clustering helps by the gap, in which confidence counts less."""
    if BASELINE not in by_gap.algorithms or not by_gap.pairs:
        return ""
    where = f"over {by_gap.num_scenarios} scenarios"
    apart = [pair for pair in by_gap.pairs if BASELINE in (pair.one, pair.other) and pair.is_significant]
    if by_gap.friedman_p is not None and by_gap.friedman_p >= ALPHA:
        # Single pairs are not interpreted if Friedman's test finds no difference at all (Demsar 2006,
        # section 3.2).
        apart = []
    words = f"no algorithm is found to differ from {BASELINE} {where}"
    if apart:
        better = ", ".join(pair.one for pair in apart if pair.other == BASELINE) or "none"
        worse = ", ".join(pair.other for pair in apart if pair.one == BASELINE) or "none"
        words = f"{where}: better than {BASELINE}: {better}; worse: {worse}"
    return f"By {by_gap.measure}, in which confidence counts less, {words}."


def select_clients(explained: Sequence[ExplanationMeans], clients: int) -> tuple[ExplanationMeans, ...]:
    """Select the scores of scenarios with this number of clients."""
    return tuple(model for model in explained if model.scenario[1] == clients)
