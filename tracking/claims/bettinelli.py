"""The claims of Bettinelli et al. 2024, which shows figures and no tables.

Accuracy is of the communities' models on the server's balanced test set. The silhouette is scikit-learn's on
the graph's distances; the paper's own counts a client into its own distances, so that its values are not
comparable.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from fedgrid.tracking.claims.claim import (
    Check,
    Claim,
    ScoreBySeed,
    above,
    alone,
    having,
    named,
    scores,
    values_of,
)
from fedgrid.tracking.scoring.measures import (
    FINAL_ARI,
    GA_LAST,
    GLOBAL_LAST,
    GLOBAL_OWN_LAST,
    PA_LAST,
    SILHOUETTE_LAST,
    Measure,
)
from fedgrid.tracking.scoring.study import Run, Study

PAPER = "Bettinelli et al."
COMMUNITIES = named("Louvain", "Leiden")
RESOLUTION, MAJORITY, RATE = "algorithm.resolution", "split.majority", "participation"
DISTANCE, CLIENTS = "algorithm.distance", "clients"
LATE, ATTRIBUTION = "algorithm.late", "algorithm.attribution"
LIKE = 0.02
"""Accuracies closer than this are alike."""
TIE = -1e-9


def variant(name: str) -> Callable[[Run], bool]:
    """Return whether a run starts its rounds in a way of the paper: `avg`, `1nn`, `wnn` or `late`."""

    def fits(run: Run) -> bool:
        is_late = run.keys.get(LATE, "null") != "null"
        own = "late" if is_late else run.keys.get(ATTRIBUTION)
        return COMMUNITIES(run) and own == name

    return fits


def _at(study: Study, measure: Measure, name: str, *, rate: str | None = None) -> ScoreBySeed:
    fits = variant(name)
    return scores(study, measure.of, fits if rate is None else having(RATE, rate, fits))


def _best_value(study: Study, key: str, best: str, measures: tuple[Measure, ...]) -> Iterator[Check]:
    """Yield checks of one value of a key against all others."""
    for measure in measures:
        mine = scores(study, measure.of, having(key, best, COMMUNITIES), key)
        for other in values_of(study, key, COMMUNITIES):
            if other != best:
                theirs = scores(study, measure.of, having(key, other, COMMUNITIES), key)
                yield from above(f"{measure.name}: {key} {best} - {other}", mine, theirs, low=TIE)


def _flat_in_resolution(study: Study) -> Iterator[Check]:
    first = scores(study, GA_LAST.of, having(RESOLUTION, "1", COMMUNITIES), RESOLUTION)
    for value in values_of(study, RESOLUTION, COMMUNITIES):
        if value != "1":
            other = scores(study, GA_LAST.of, having(RESOLUTION, value, COMMUNITIES), RESOLUTION)
            yield from above(f"resolution {value} - 1", other, first, low=-LIKE, high=LIKE)


def _depends_on_majority(study: Study) -> Iterator[Check]:
    values = values_of(study, MAJORITY, COMMUNITIES)
    if len(values) > 1:
        least, most = (
            scores(study, GA_LAST.of, having(MAJORITY, value, COMMUNITIES), MAJORITY)
            for value in (values[0], values[-1])
        )
        for check in above(f"majority {values[0]} - {values[-1]}", least, most, low=0.05):
            turned = tuple(np.sign(check.mean) * value for value in check.values)
            yield Check(check.what, check.scenario, turned, check.low)


def _finds_groups(study: Study) -> Iterator[Check]:
    for name in ("avg", "late", "1nn"):
        where = having(MAJORITY, "0.7", having(RATE, "1", variant(name)))
        yield from alone(f"ARI of {name}", scores(study, FINAL_ARI.of, where), low=0.999)


def _lost_at_half(study: Study) -> Iterator[Check]:
    yield from alone("ARI of 1nn", _at(study, FINAL_ARI, "1nn", rate="0.5"), low=-0.2, high=0.2)


def _nearest_beats_weighted(study: Study) -> Iterator[Check]:
    for measure in (GA_LAST, FINAL_ARI, SILHOUETTE_LAST):
        one, other = _at(study, measure, "1nn"), _at(study, measure, "wnn")
        yield from above(f"{measure.name}: 1nn - wnn", one, other)


def _average_beside_nearest(study: Study) -> Iterator[Check]:
    for name in ("avg", "late"):
        for measure, low, high in (
            (GA_LAST, -LIKE, LIKE),
            (FINAL_ARI, TIE, np.inf),
            (SILHOUETTE_LAST, -np.inf, 0.0),
        ):
            one, other = _at(study, measure, name), _at(study, measure, "1nn")
            yield from above(f"{measure.name}: {name} - 1nn", one, other, low=low, high=high)


def _above_ifca(study: Study) -> Iterator[Check]:
    for measure in (GA_LAST, FINAL_ARI):
        ifca = scores(study, measure.of, named("IFCA"))
        for name in ("avg", "1nn", "late"):
            yield from above(f"{measure.name}: {name} - IFCA", _at(study, measure, name), ifca)


def _global_order(study: Study) -> Iterator[Check]:
    avg, nearest = _at(study, GLOBAL_LAST, "avg"), _at(study, GLOBAL_LAST, "1nn")
    yield from above("avg - 1nn", avg, nearest)
    yield from above("1nn - IFCA", nearest, scores(study, GLOBAL_LAST.of, named("IFCA")))


def _above_global(study: Study) -> Iterator[Check]:
    one, other = (scores(study, measure.of, COMMUNITIES) for measure in (PA_LAST, GLOBAL_OWN_LAST))
    yield from above("communities - global", one, other)


def _any_distance(study: Study) -> Iterator[Check]:
    first = scores(study, FINAL_ARI.of, having(DISTANCE, "trusted", COMMUNITIES))
    for value in values_of(study, DISTANCE, COMMUNITIES):
        if value != "trusted":
            other = scores(study, FINAL_ARI.of, having(DISTANCE, value, COMMUNITIES))
            yield from above(f"{value} - trusted", other, first, low=-0.05, high=0.05)


def _smoother(study: Study) -> Iterator[Check]:
    """Yield deviations of the ARI from its median over seeds: those of few clients less those of many."""
    values = values_of(study, CLIENTS, COMMUNITIES)
    if len(values) > 1:
        few, many = (
            _deviations(scores(study, FINAL_ARI.of, having(CLIENTS, value, COMMUNITIES), CLIENTS))
            for value in (values[0], values[-1])
        )
        yield from above(f"{values[0]} clients - {values[-1]}", few, many)


def _deviations(found: ScoreBySeed) -> ScoreBySeed:
    scenarios = {scenario for scenario, _ in found}
    middle = {
        place: float(np.median([value for (scenario, _), value in found.items() if scenario == place]))
        for place in scenarios
    }
    return {(scenario, seed): abs(value - middle[scenario]) for (scenario, seed), value in found.items()}


BEST = (FINAL_ARI, SILHOUETTE_LAST)
CLAIMS = (
    Claim(
        PAPER,
        "resolution 1 is best for ARI and silhouette",
        "Figure 3, V-B1",
        "resolution 1 - each other",
        "0 or more",
        partial(_best_value, key=RESOLUTION, best="1", measures=BEST),
    ),
    Claim(
        PAPER,
        "majority 1 is best for ARI and silhouette",
        "Figure 3, V-B1",
        "majority 1 - each other",
        "0 or more",
        partial(_best_value, key=MAJORITY, best="1", measures=BEST),
    ),
    Claim(
        PAPER,
        "accuracy does not depend on the resolution",
        "Figure 3a",
        "accuracy, each resolution - 1",
        f"within {LIKE}",
        _flat_in_resolution,
    ),
    Claim(
        PAPER,
        "accuracy depends on the majority",
        "Figure 3a",
        "accuracy, least majority - most, either sign",
        "above 0.05",
        _depends_on_majority,
    ),
    Claim(
        PAPER,
        "with all clients, AVG, Late and 1NN find the two groups (majority 0.7)",
        "Figures 4b and 5c: ARI 1",
        "ARI",
        "above 0.999",
        _finds_groups,
    ),
    Claim(
        PAPER,
        "with half of the clients, the ARI of 1NN is about 0",
        "Figure 4b, of high variance",
        "ARI",
        "within 0.2",
        _lost_at_half,
    ),
    Claim(
        PAPER,
        "1NN is above WNN in all scores",
        "Figure 4",
        "accuracy, ARI and silhouette, 1NN - WNN",
        "above 0",
        _nearest_beats_weighted,
    ),
    Claim(
        PAPER,
        "AVG and Late: accuracy like 1NN, ARI higher, silhouette lower",
        "Figure 4; the text also calls AVG equally effective",
        "accuracy, ARI and silhouette, AVG and Late - 1NN",
        f"within {LIKE}; 0 or more; below 0",
        _average_beside_nearest,
    ),
    Claim(
        PAPER,
        "IFCA is less accurate, and its clusters are worse",
        "Figures 4a, 4b and 5a",
        "accuracy and ARI, communities - IFCA",
        "above 0",
        _above_ifca,
    ),
    Claim(
        PAPER,
        "global models: AVG is above 1NN, 1NN above IFCA",
        "Figure 5a",
        "global model's accuracy",
        "above 0",
        _global_order,
    ),
    Claim(
        PAPER,
        "the communities' models beat the global one on their members' data",
        "Figure 6",
        "accuracy on own images, communities - global",
        "above 0",
        _above_global,
    ),
    Claim(
        PAPER,
        "the choice of the distance is not crucial",
        "text, IV-A",
        "ARI, another distance - trusted",
        "within 0.05",
        _any_distance,
    ),
    Claim(
        PAPER,
        "more clients smooth the ARI",
        "a hypothesis, V-B2",
        "ARI's deviation from its median over seeds, fewest clients - most",
        "above 0",
        _smoother,
    ),
)
