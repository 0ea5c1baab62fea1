"""The claims of Bettinelli et al. 2024, which shows figures and no tables.

Accuracy is of the communities' models on the server's balanced test set. The silhouette is scikit-learn's on
the graph's distances; the paper's own counts a client into its own distances, so that its values are not
comparable.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from operator import itemgetter

import numpy as np

from fedgrid.tracking.arrays import group_by
from fedgrid.tracking.papers.shared.claim import (
    Check,
    Claim,
    ScoreBySeed,
    check_differences,
    check_scores,
    compare_ends,
    has_name,
    has_value,
    list_values,
    read_scores,
)
from fedgrid.tracking.papers.shared.paper import Paper
from fedgrid.tracking.scoring.measures import (
    FINAL_ARI,
    GA_LAST,
    GLOBAL_LAST,
    GLOBAL_OWN_LAST,
    PA_LAST,
    SILHOUETTE_LAST,
    Measure,
)
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study

COMMUNITIES = has_name("Louvain", "Leiden")
RESOLUTION, MAJORITY, RATE = "algorithm.resolution", "split.majority", "participation"
ALIKE = 0.02
"""Accuracies closer than this are alike."""
TIE = -1e-9
"""Lower end of an interval that has 0 itself: differences of equal scores are 0 but for rounding."""


def match_variant(name: str) -> Callable[[Run], bool]:
    """Build a check whether a run starts its rounds in a way of the paper: `avg`, `1nn`, `wnn` or `late`."""

    def is_match(run: Run) -> bool:
        """Check whether a run is of this variant."""
        is_late = run.keys.get("algorithm.late", "null") != "null"
        own = "late" if is_late else run.keys.get("algorithm.attribution")
        return COMMUNITIES(run) and own == name

    return is_match


def _read_variant_scores(
    study: Study, measure: Measure, name: str, *, rate: str | None = None
) -> ScoreBySeed:
    """Compute a measure of the runs of a variant, or of IFCA, at one rate of participation or at all."""
    fits = has_name(name) if name == "IFCA" else match_variant(name)
    return read_scores(study, measure.formula, fits if rate is None else has_value(RATE, rate, fits))


def _compare_values(
    study: Study, key: str, value: str, measures: tuple[Measure, ...], low: float, high: float = np.inf
) -> Iterator[Check]:
    """Yield checks of one value of a key against each other one."""
    for measure in measures:
        # Without this key in the scenario, and with all others: runs that differ in it alone are compared.
        mine = read_scores(study, measure.formula, has_value(key, value, COMMUNITIES), key)
        for other in list_values(study, key, COMMUNITIES):
            if other != value:
                theirs = read_scores(study, measure.formula, has_value(key, other, COMMUNITIES), key)
                yield from check_differences(
                    f"{measure.name}: {key} {value} - {other}", mine, theirs, low=low, high=high
                )


def _compare_variants(
    study: Study, pairs: tuple[tuple[str, str], ...], limits: tuple[tuple[Measure, float, float], ...]
) -> Iterator[Check]:
    """Yield checks of pairs of variants, or of one and IFCA, by measures with the limits of the claim."""
    for (name, against), (measure, low, high) in product(pairs, limits):
        one, other = _read_variant_scores(study, measure, name), _read_variant_scores(study, measure, against)
        yield from check_differences(f"{measure.name}: {name} - {against}", one, other, low=low, high=high)


def _check_majority(study: Study) -> Iterator[Check]:
    """Yield checks that accuracy at the least and greatest majority differ, in either direction."""
    if chosen := compare_ends(study, GA_LAST.formula, MAJORITY, COMMUNITIES):
        (least, one), (most, other) = chosen
        for check in check_differences(f"majority {least} - {most}", one, other, low=0.05):
            # The claim has no direction: each scenario is turned so that its mean difference is positive.
            turned = tuple(np.sign(check.mean) * value for value in check.values)
            yield Check(check.what, check.scenario, turned, check.low)


def _check_groups(study: Study) -> Iterator[Check]:
    """Yield checks of the ARI of three variants with all clients at majority 0.7."""
    for name in ("avg", "late", "1nn"):
        # The setting of Figures 4b and 5c.
        where = has_value(MAJORITY, "0.7", has_value(RATE, "1", match_variant(name)))
        # Below 1, because the ends of a claimed interval are not within it.
        yield from check_scores(f"ARI of {name}", read_scores(study, FINAL_ARI.formula, where), low=0.999)


def _check_half_participation(study: Study) -> Iterator[Check]:
    """Yield checks of the ARI of 1NN with half of the clients."""
    # The paper gives no width to "about 0"; this one is ours.
    yield from check_scores(
        "ARI of 1nn", _read_variant_scores(study, FINAL_ARI, "1nn", rate="0.5"), low=-0.2, high=0.2
    )


def _check_global_model(study: Study) -> Iterator[Check]:
    """Yield checks of the communities' models against the global one on their members' images."""
    one, other = (read_scores(study, measure.formula, COMMUNITIES) for measure in (PA_LAST, GLOBAL_OWN_LAST))
    yield from check_differences("communities - global", one, other)


def _check_smoothness(study: Study) -> Iterator[Check]:
    """Yield deviations of the ARI from its median over seeds: those of few clients less those of many."""
    if chosen := compare_ends(study, FINAL_ARI.formula, "clients", COMMUNITIES):
        (fewest, few), (most, many) = chosen
        yield from check_differences(
            f"{fewest} clients - {most}", _compute_deviations(few), _compute_deviations(many)
        )


def _compute_deviations(aris: ScoreBySeed) -> ScoreBySeed:
    """Compute the distance of each ARI from its scenario's median over seeds."""
    places = group_by(aris, itemgetter(0))
    middle = {scenario: float(np.median([aris[at] for at in own])) for scenario, own in places.items()}
    return {(scenario, seed): abs(ari - middle[scenario]) for (scenario, seed), ari in aris.items()}


BEST = (FINAL_ARI, SILHOUETTE_LAST)
CLAIMS = (
    Claim(
        "resolution 1 is best for ARI and silhouette",
        "Figure 3, V-B1",
        "resolution 1 - each other",
        "0 or more",
        partial(_compare_values, key=RESOLUTION, value="1", measures=BEST, low=TIE),
    ),
    Claim(
        "majority 1 is best for ARI and silhouette",
        "Figure 3, V-B1",
        "majority 1 - each other",
        "0 or more",
        partial(_compare_values, key=MAJORITY, value="1", measures=BEST, low=TIE),
    ),
    Claim(
        "accuracy does not depend on the resolution",
        "Figure 3a",
        "accuracy, resolution 1 - each other",
        f"within {ALIKE}",
        partial(_compare_values, key=RESOLUTION, value="1", measures=(GA_LAST,), low=-ALIKE, high=ALIKE),
    ),
    Claim(
        "accuracy depends on the majority",
        "Figure 3a",
        "accuracy, least majority - most, either sign",
        "above 0.05",
        _check_majority,
    ),
    Claim(
        "with all clients, AVG, Late and 1NN find the two groups (majority 0.7)",
        "Figures 4b and 5c: ARI 1",
        "ARI",
        "above 0.999",
        _check_groups,
    ),
    Claim(
        "with half of the clients, the ARI of 1NN is about 0",
        "Figure 4b, of high variance",
        "ARI",
        "within 0.2",
        _check_half_participation,
    ),
    Claim(
        "1NN is above WNN in all scores",
        "Figure 4",
        "accuracy, ARI and silhouette, 1NN - WNN",
        "above 0",
        partial(
            _compare_variants,
            pairs=(("1nn", "wnn"),),
            limits=((GA_LAST, 0, np.inf), (FINAL_ARI, 0, np.inf), (SILHOUETTE_LAST, 0, np.inf)),
        ),
    ),
    Claim(
        "AVG and Late: accuracy like 1NN, ARI higher, silhouette lower",
        "Figure 4; the text also calls AVG equally effective",
        "accuracy, ARI and silhouette, AVG and Late - 1NN",
        f"within {ALIKE}; 0 or more; below 0",
        partial(
            _compare_variants,
            pairs=(("avg", "1nn"), ("late", "1nn")),
            limits=((GA_LAST, -ALIKE, ALIKE), (FINAL_ARI, TIE, np.inf), (SILHOUETTE_LAST, -np.inf, 0.0)),
        ),
    ),
    Claim(
        "IFCA is less accurate, and its clusters are worse",
        "Figures 4a, 4b and 5a",
        "accuracy and ARI, communities - IFCA",
        "above 0",
        partial(
            _compare_variants,
            pairs=(("avg", "IFCA"), ("1nn", "IFCA"), ("late", "IFCA")),
            limits=((GA_LAST, 0, np.inf), (FINAL_ARI, 0, np.inf)),
        ),
    ),
    Claim(
        "global models: AVG is above 1NN, 1NN above IFCA",
        "Figure 5a",
        "global model's accuracy",
        "above 0",
        partial(
            _compare_variants, pairs=(("avg", "1nn"), ("1nn", "IFCA")), limits=((GLOBAL_LAST, 0, np.inf),)
        ),
    ),
    Claim(
        "the communities' models beat the global one on their members' data",
        "Figure 6",
        "accuracy on own images, communities - global",
        "above 0",
        _check_global_model,
    ),
    Claim(
        "the choice of the distance is not crucial",
        "text, IV-A",
        "ARI, trusted distance - each other",
        "within 0.05",
        partial(
            _compare_values,
            key="algorithm.distance",
            value="trusted",
            measures=(FINAL_ARI,),
            low=-0.05,
            high=0.05,
        ),
    ),
    Claim(
        "more clients smooth the ARI",
        "a hypothesis, V-B2",
        "ARI's deviation from its median over seeds, fewest clients - most",
        "above 0",
        _check_smoothness,
    ),
)
PAPER = Paper("bettinelli", "Bettinelli et al.", claims=CLAIMS)
