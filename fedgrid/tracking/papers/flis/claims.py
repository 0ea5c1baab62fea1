"""The claims of FLIS (Morafah et al. 2022), sections 1 and 3.

Accuracy is the paper's (`papers.flis.tables.read_accuracy`): of each client's last local model, and of the
global model where there is only one (FedAvg, FedProx, FedNova, SCAFFOLD; Per-FedAvg's after adaptation).
"""

from collections.abc import Iterator
from functools import partial
from math import inf

from fedgrid.tracking.papers.flis.tables import (
    GLOBAL,
    TARGETS,
    build_flis_tables,
    choose_curve,
    read_accuracy,
)
from fedgrid.tracking.papers.shared.claim import (
    Check,
    Claim,
    ScoreBySeed,
    check_differences,
    check_scores,
    compare_ends,
    has_name,
    has_value,
    read_scores,
    select_largest,
)
from fedgrid.tracking.papers.shared.paper import Paper
from fedgrid.tracking.scoring.cost import compute_cost
from fedgrid.tracking.scoring.measures import PA_LAST
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study

PERSONAL = ("LG-FedAvg", "Per-FedAvg", "SCL", "IFCA")
SKEWED = ("label-skew", "dirichlet")


def _read_accuracies(study: Study, *titles: str, splits: tuple[str, ...] = SKEWED) -> ScoreBySeed:
    """Read the paper's accuracy of algorithms on some splits, by scenario and seed."""
    return read_scores(study, read_accuracy, lambda run: has_name(*titles)(run) and run.split in splits)


def _compare_algorithms(
    study: Study,
    one: str,
    others: tuple[str, ...],
    *,
    splits: tuple[str, ...] = SKEWED,
    low: float = 0.0,
    high: float = inf,
) -> Iterator[Check]:
    """Yield checks of one algorithm's accuracy against each of the others."""
    for other in others:
        mine, theirs = (
            _read_accuracies(study, one, splits=splits),
            _read_accuracies(study, other, splits=splits),
        )
        yield from check_differences(f"{one} - {other}", mine, theirs, low=low, high=high)


def _find_largest_gain(
    study: Study, others: tuple[str, ...], splits: tuple[str, ...], low: float
) -> tuple[Check, ...]:
    """Find the largest gain of FLIS-DC over the others."""
    return select_largest(_compare_algorithms(study, "FLIS-DC", others, splits=splits, low=low))


def _count_rounds(study: Study, *titles: str) -> ScoreBySeed:
    """Count rounds to the paper's target, on other data to 95 % of the best; one more than all if never."""
    best: dict[tuple[str, str], float] = {}
    for result in study.finished:
        place = (result.dataset, str(result.scenario))
        best[place] = max(best.get(place, 0.0), 0.95 * read_accuracy(result))

    def count_rounds(result: Run) -> float:
        """Count the rounds of one run."""
        # The paper has targets for its own data sets only.
        goal = TARGETS.get(result.dataset, best[result.dataset, str(result.scenario)])
        # A run that never reaches the target counts as slower than all that do.
        return min(compute_cost(result, choose_curve(result), goal).rounds, float(result.rounds + 1))

    return read_scores(study, count_rounds, lambda run: has_name(*titles)(run) and run.split in SKEWED)


def _check_fewest_rounds(study: Study) -> Iterator[Check]:
    """Yield checks that each other algorithm needs as many rounds as FLIS-HC or more."""
    fewest = _count_rounds(study, "FLIS-HC")
    for other in (*GLOBAL, *PERSONAL):
        # Rounds are whole numbers: a tie lies within the interval only if this begins below 0.
        yield from check_differences(f"{other} - FLIS-HC", _count_rounds(study, other), fewest, low=-0.5)


def _check_four_times(study: Study) -> Iterator[Check]:
    """Yield checks of the ratio of rounds of Per-FedAvg and FLIS-HC on CIFAR-100."""
    part = study.with_values(dataset="cifar100")
    one, other = _count_rounds(part, "Per-FedAvg"), _count_rounds(part, "FLIS-HC")
    ratios = {key: one[key] / other[key] for key in one if key in other}
    yield from check_scores("Per-FedAvg / FLIS-HC", ratios, low=3.5, high=4.5)


def _check_beta_limit(study: Study, value: str, title: str, near: float) -> Iterator[Check]:
    """Yield checks that FLIS-DC at an end of beta's range is as accurate as another algorithm."""
    flis = read_scores(study, PA_LAST.formula, has_value("algorithm.beta", value, has_name("FLIS-DC")))
    yield from check_differences(
        f"FLIS-DC (beta {value}) - {title}",
        flis,
        read_scores(study, PA_LAST.formula, has_name(title)),
        low=-near,
        high=near,
    )


def _check_epochs(study: Study, titles: tuple[str, ...], *, help_: bool) -> Iterator[Check]:
    """Yield checks of accuracy at most local epochs against fewest, or the other way around."""
    for title in titles:
        if chosen := compare_ends(study, read_accuracy, "training.local_epochs", has_name(title)):
            (least, few), (most, many) = chosen
            one, other = (many, few) if help_ else (few, many)
            yield from check_differences(f"{title}, {most} epochs and {least}", one, other)


CLAIMS = (
    Claim(
        "FLIS is about 40 points above the global baselines",
        "89.47 - 49.8 = 39.7 on CIFAR-10, 20 % skew (1, 3.1)",
        "FLIS-DC - a global baseline, the largest",
        "above 0.35",
        partial(_find_largest_gain, others=GLOBAL, splits=SKEWED, low=0.35),
    ),
    Claim(
        "FLIS is about 30 points above the personalised baselines",
        "73.91 - 45.98 = 27.9 (LG), 73.91 - 40.29 = 33.6 (CFL) on CIFAR-100, 20 % skew (1, 3.1)",
        "FLIS-DC - a personalised baseline, the largest",
        "above 0.25",
        partial(_find_largest_gain, others=PERSONAL, splits=SKEWED, low=0.25),
    ),
    Claim(
        "SOLO beats all global baselines",
        "by its own tables in 4 of 11 columns: not on SVHN, not on CIFAR-100, not with Dir(0.1) (3.1)",
        "SOLO - each global baseline",
        "above 0",
        partial(_compare_algorithms, one="SOLO", others=GLOBAL),
    ),
    Claim(
        "LG-FedAvg and Per-FedAvg are worse than FedAvg at Dir(0.1)",
        "not on CIFAR-10: 49.65 and 53.58 against 38.22 (3.1)",
        "FedAvg - LG-FedAvg and FedAvg - Per-FedAvg",
        "above 0",
        partial(_compare_algorithms, one="BNC", others=("LG-FedAvg", "Per-FedAvg"), splits=("dirichlet",)),
    ),
    Claim(
        "FLIS beats IFCA by up to about 10 points at Dir(0.1)",
        "60.33 - 51.16 = 9.2 on CIFAR-10 (DC); 0.02 (HC)",
        "FLIS-DC - IFCA, the largest",
        "above 0.08",
        partial(_find_largest_gain, others=("IFCA",), splits=("dirichlet",), low=0.08),
    ),
    Claim(
        "FLIS-HC is slightly worse than FLIS-DC",
        "0.1 to 0.7 points at 20 % skew; 51.18 against 60.33 on CIFAR-10, Dir(0.1)",
        "FLIS-DC - FLIS-HC",
        "0 to 0.02",
        partial(_compare_algorithms, one="FLIS-DC", others=("FLIS-HC",), high=0.02),
    ),
    Claim(
        "FLIS needs the fewest rounds in all scenarios",
        "FLIS-HC 12, 24, 37, 15 against at least 13, 25, 40, 16 (Table 3); LG-FedAvg sends less",
        "rounds of each other algorithm - of FLIS-HC",
        "0 or more",
        _check_fewest_rounds,
    ),
    Claim(
        "Per-FedAvg needs about 4 times as many rounds on CIFAR-100",
        "110 / 37 = 3.0 (Table 3)",
        "rounds of Per-FedAvg / of FLIS-HC",
        "3.5 to 4.5",
        _check_four_times,
    ),
    Claim(
        "beta = 0 is FedAvg",
        "the text; the same models by construction",
        "FLIS-DC (beta 0) - FedAvg",
        "within 0.001",
        partial(_check_beta_limit, value="0", title="BNC", near=0.001),
    ),
    Claim(
        "beta = 1 is almost SOLO",
        "the text; its code joins pairs above 0.96 whatever beta is",
        "FLIS-DC (beta 1) - SOLO",
        "within 0.02",
        partial(_check_beta_limit, value="1", title="SOLO", near=0.02),
    ),
    Claim(
        "more local epochs help FLIS",
        "Figure 2",
        "most epochs - fewest",
        "above 0",
        partial(_check_epochs, titles=("FLIS-DC", "FLIS-HC"), help_=True),
    ),
    Claim(
        "more local epochs hurt global models",
        "cited from other work",
        "fewest epochs - most",
        "above 0",
        partial(_check_epochs, titles=GLOBAL, help_=False),
    ),
)
PAPER = Paper("flis", "FLIS", build_flis_tables, claims=CLAIMS)
