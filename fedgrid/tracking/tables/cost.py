"""Tables of the cost of learning: rounds, traffic and seconds until a score, early messages, privacy.

Shapes: R rounds.
"""

from collections.abc import Callable
from itertools import chain
from math import inf, isinf

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.scoring.axes import format_setting
from fedgrid.tracking.scoring.cost import (
    DEFAULT_TARGET,
    Cost,
    Target,
    adapt_target,
    choose_unit,
    compute_costs,
)
from fedgrid.tracking.scoring.measures import EPSILON, FINAL_ARI, PA_LAST, read_scores_by_seed
from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study, require_one_value
from fedgrid.tracking.tables.cells import StudyColumn, build_algorithms_table, build_measure_column
from fedgrid.tracking.tables.table import ABSENT, NONE, Cell, Table, build_median_cell, build_share_cell

NEVER = "never"
SENT = {
    "bytes": "bytes sent up and down by all clients together",
    "mbit-per-client": "megabits sent up and down, a mean over all clients, sampled or not (FLIS, Table 3)",
}


def build_cost_table(study: Study, target: Target = DEFAULT_TARGET) -> Table:
    """Build the table of runs that reach the target, and their median rounds, traffic and seconds.

    Raises:
        ValueError: if the study has several data sets or numbers of clients.
    """
    dataset, clients = require_one_value(study, "dataset", "clients")
    target = adapt_target(study, target)
    by_algorithm = compute_costs(study, target)
    name, size = choose_unit(chain.from_iterable(by_algorithm.values()), target.unit)

    def build_reached_cell(own: Study) -> Cell:
        """Build the cell of the number of an algorithm's runs that reach the target."""
        count = sum(bool(np.isfinite(spent.rounds)) for spent in by_algorithm[own.runs[0].algorithm])
        return build_share_cell(count, len(own.finished), len(own.runs))

    def build_column(name: str, number: Callable[[Cost], float], digits: int) -> StudyColumn:
        """Build the column of the median of one cost."""

        def build_cell(own: Study) -> Cell:
            """Build the cell of one algorithm."""
            spent = by_algorithm[own.runs[0].algorithm]
            return build_median_cell([number(one) for one in spent], digits, never=NEVER)

        return StudyColumn(name, "until the target", highest=False, cell=build_cell)

    return build_algorithms_table(
        study,
        f"cost-{dataset}-{clients}",
        f"Cost of {target.score} {target.goal}: {dataset}, {clients} clients",
        f"Until {target.score} first reaches {target.goal}: how many runs reach it; medians over all runs "
        f"of the rounds, of the {SENT[target.unit]} (training only), and of the seconds, as "
        f"without the round cache. {NEVER}: not reached by half of the runs. Least of a column in bold.",
        (
            StudyColumn("reached", cell=build_reached_cell),
            build_column("rounds", lambda spent: spent.rounds, 0),
            build_column(name, lambda spent: spent.convert_traffic(target.unit) / size, 2),
            build_column("seconds", lambda spent: spent.seconds, 1),
        ),
    )


def has_messages(study: Study) -> bool:
    """Check whether a finished run's clients send a message before they train."""
    return any(_sum_curve(result, "message_bytes") > 0 for result in study.finished)


def build_messages_table(study: Study) -> Table:
    """Build the table of messages before training, bytes until the clusters are final, and the last ARI.

    Raises:
        ValueError: if the study has several data sets or numbers of clients.
    """
    dataset, clients = require_one_value(study, "dataset", "clients")
    # One mean for all algorithms, which train the same model on the same images: a run whose rounds are
    # cached has no seconds of an epoch.
    means = [_average_curve(result, "epoch_seconds") for result in study.finished]
    seconds = [value for value in means if not np.isnan(value)]
    epoch = float(np.mean(seconds)) if seconds else np.nan
    before = "before training"

    def build_column(name: str, group: str, digits: int, number: Callable[[Run], float]) -> StudyColumn:
        """Build the column of the median over runs of one number.

        Args:
            name: its heading.
            group: the heading above it, empty for none.
            digits: decimal digits of the text.
            number: computes the number of a run.
        """
        return StudyColumn(
            name, group, cell=lambda own: build_median_cell([number(run) for run in own.finished], digits)
        )

    return build_algorithms_table(
        study,
        f"before-training-{dataset}-{clients}",
        f"Before training: {dataset}, {clients} clients",
        "Medians over runs. Before training: bits that a client says about its data; megabytes of that, of "
        "the encoder's federated training and of its way to the clients, all together; how many times longer "
        "a local epoch takes than a message. Then the megabytes until no client changes its cluster any "
        f"more, and the ARI of the last round. {NONE}: one cluster throughout, or no message is sent.",
        (
            build_column(
                "bits a client", before, 0, lambda run: 8 * _sum_curve(run, "message_bytes") / clients
            ),
            build_column("MB in all", before, 3, lambda run: _sum_message_bytes(run) / 1e6),
            build_column(
                "epoch / message", before, 1, lambda run: epoch / _average_curve(run, "message_seconds")
            ),
            build_column(
                "MB until the clusters are final", "", 3, lambda run: sum_bytes_until_final(run) / 1e6
            ),
            build_column("ARI", "", 3, lambda run: run.last("ari")),
        ),
    )


def sum_bytes_until_final(result: Run) -> float:
    """Compute the bytes sent until the partition is that of the last round; NaN of one cluster throughout.

    Clusters of messages are there before the first model is sent.
    """
    last_K = result.labels_RK[-1]
    if len(np.unique(result.labels_RK)) == 1:
        return np.nan
    others = np.flatnonzero((result.labels_RK != last_K).any(axis=1))
    first = int(others[-1]) + 1 if len(others) else 0
    if first == 0 and _sum_message_bytes(result) > 0:
        return _sum_message_bytes(result)
    return float(result.curves["bytes"][first])


def _sum_message_bytes(result: Run) -> float:
    """Compute the bytes of messages and of the encoder that they are made with."""
    return _sum_curve(result, "message_bytes") + _sum_curve(result, "encoder_bytes")


def _average_curve(result: Run, name: str) -> float:
    """Compute the mean of a curve, NaN if it has no value."""
    values_R = result.curves[name]
    return np.nan if np.isnan(values_R).all() else float(np.nanmean(values_R))


def _sum_curve(result: Run, name: str) -> float:
    """Compute the sum of a curve without its NaNs."""
    return float(np.nansum(result.curves[name]))


def find_last_paid_round(epsilon_R: Array) -> int:
    """Find the last round, from 1, that has cost anything; 0 if none has.

    Args:
        epsilon_R: the largest epsilon of any client after each of R rounds.
    """
    # An infinite epsilon has no budget that could end, so every round is sent.
    if np.isinf(epsilon_R[-1]):
        return len(epsilon_R)
    # Epsilon starts at 0 before the first round, which may have a cost of its own.
    return int(np.flatnonzero(np.diff(epsilon_R, prepend=0.0)).max(initial=-1)) + 1


def build_epsilon_table(study: Study) -> Table:
    """Build the table of scores by epsilon, a row for each setting and algorithm."""
    has_budgets = any(run.keys.get("privacy.epsilon", "null") != "null" for run in study.runs)
    deltas = ", ".join(dict.fromkeys(run.keys.get("privacy.delta", "") for run in study.runs))
    parts = {
        ", ".join(format_setting(setting)) or "all runs": study.with_values(setting=setting)
        for setting in study.settings
    }
    return build_algorithms_table(
        study,
        "privacy",
        "Scores by epsilon",
        f"epsilon: of (epsilon, delta)-differential privacy of a client, delta {deltas}, after the last "
        f"round; the largest of any client and run. ∞: clients tell something that no noise covers; {NONE}: "
        "no noise. final ARI: adjusted Rand index of the last partition. "
        f"{'Sends until: the last round that any client could pay for. ' * has_budgets}"
        "Best of each setting in bold.",
        (
            StudyColumn("epsilon", cell=_build_epsilon_cell),
            *([StudyColumn("sends until", cell=_build_last_round_cell)] if has_budgets else []),
            *map(build_measure_column, (FINAL_ARI, PA_LAST)),
        ),
        parts,
        "setting",
    )


def _build_last_round_cell(study: Study) -> Cell:
    """Build the cell of the last round that any client could pay for."""
    # A run without noise has NaN for epsilon, and no budget.
    epsilons = [result.curves["epsilon"] for result in study.finished]
    rounds = [find_last_paid_round(epsilon_R) for epsilon_R in epsilons if not np.isnan(epsilon_R).any()]
    return Cell(str(max(rounds)), max(rounds), count=len(rounds)) if rounds else Cell(NONE)


def _build_epsilon_cell(study: Study) -> Cell:
    """Build the cell of the largest epsilon of any run."""
    if not study.finished:
        return Cell() if study.runs else Cell(ABSENT)
    epsilons = read_scores_by_seed(study, EPSILON).values()
    if not epsilons:
        return Cell(NONE, inf)
    return Cell("∞" if isinf(max(epsilons)) else f"{max(epsilons):.3g}", max(epsilons), count=len(epsilons))
