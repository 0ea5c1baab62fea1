"""The scores of clients in one round, and each paper's own definition of personalised accuracy.

Scores named `published_...` follow Figure 2 of the OCFL journal paper as its notebooks compute it (F1 over
the union of true and predicted classes, generalisation of the local models); all others are what their names
say. Shapes: R rounds, K clients.
"""

from collections.abc import Callable, Iterable, Mapping
from math import isnan, nan
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedgrid.tracking.arrays import Array, Score, mean_without_nan

TestColumns: TypeAlias = Mapping[str, ArrayLike]
"""`personalised_accuracy` and so on: the columns of tests in the records, clients on the last axis."""


def _average_column(column: str) -> Callable[[TestColumns], Array]:
    """Build a function for the mean of a column over clients."""
    return lambda tests: mean_without_nan(tests[column])


def _gap_between(one: str, other: str) -> Callable[[TestColumns], Array]:
    """Build a function for the mean over clients of the absolute difference of two columns."""
    return lambda tests: mean_without_nan(
        np.abs(np.asarray(tests[one], np.float64) - np.asarray(tests[other], np.float64))
    )


def average_lowest_tenth(values: ArrayLike) -> Array:
    """Compute the mean of the lowest tenth of the values on the last axis, rounded up, without the NaNs.

    NaN where there is nothing else.
    """
    # NumPy sorts NaNs to the end, so the lowest tenth of the numbers comes first.
    values = np.sort(np.asarray(values, np.float64), axis=-1)
    # Rounded up, so that fewer than ten clients have one in their lowest tenth.
    count = np.ceil((~np.isnan(values)).sum(axis=-1, keepdims=True) / 10)
    return mean_without_nan(np.where(np.arange(values.shape[-1]) < count, values, np.nan))


def compute_jain_index(values: ArrayLike) -> Array:
    """Compute Jain's index of the values on the last axis, without the NaNs; 1 if all are 0.

    Source: Jain, Chiu and Hawe, A quantitative measure of fairness and discrimination for resource allocation
    in shared computer systems, DEC-TR-301, 1984: (sum of x)^2 / (K * sum of x^2).
    """
    values = np.asarray(values, np.float64)
    squares = mean_without_nan(values**2)
    return np.asarray(
        np.divide(mean_without_nan(values) ** 2, squares, out=np.ones(squares.shape), where=squares != 0)
    )


SERVED = (("personalised", "their clients' own test sets"), ("generalised", "the server's test set"))
CLIENTS = (
    *(
        Score(
            f"{kind}_{name}",
            f"{words} of the clusters' models on {images}, mean over clients.",
            _average_column(f"{kind}_{name}"),
            section,
            name != "loss",
            f"{short}\n{heading}" if heading else "",
        )
        for (kind, images), short in zip(SERVED, ("pers.", "gen."), strict=True)
        for name, words, section, heading in (
            ("accuracy", "Accuracy", "clients", "acc."),
            ("f1", "Macro F1 over the classes in the test set,", "clients", "F1"),
            ("f1_union", "Macro F1 over the true and predicted classes,", "", ""),
            ("balanced_accuracy", "Balanced accuracy", "", ""),
            ("loss", "Loss", "clients", ""),
        )
    ),
    Score(
        "learning_gap",
        "Absolute difference of personalised and generalised accuracy, mean over clients.",
        _gap_between("personalised_accuracy", "generalised_accuracy"),
        "clients",
        None,
        "gap",
    ),
    Score(
        "learning_gap_f1",
        "Absolute difference of personalised and generalised F1, mean over clients.",
        _gap_between("personalised_f1", "generalised_f1"),
        highest=None,
    ),
    Score(
        "learning_gap_loss",
        "Absolute difference of personalised and generalised loss (cross-entropy, nats), mean over clients.",
        _gap_between("personalised_loss", "generalised_loss"),
        highest=None,
    ),
    Score(
        "worst_client_accuracy",
        "Least personalised accuracy of a client.",
        lambda tests: np.fmin.reduce(np.asarray(tests["personalised_accuracy"], np.float64), axis=-1),
        "clients",
    ),
    Score(
        "jain_index",
        "Jain's index of the clients' personalised accuracies: 1 if all are equal, 1/K if one of K has all.",
        lambda tests: compute_jain_index(tests["personalised_accuracy"]),
        "clients",
    ),
    Score(
        "asked_accuracy",
        "Accuracy of the clusters' models on their clients' own test sets, mean over the clients that were "
        "sampled in the round.",
        lambda tests: mean_without_nan(
            np.where(np.asarray(tests["asked"]) == 1, tests["personalised_accuracy"], np.nan)
        ),
    ),
    Score(
        "global_accuracy",
        "Accuracy of the algorithm's global model on the server's test set (`evaluation.global_model`).",
        _average_column("global_accuracy"),
        "clients",
        needs="global_model",
    ),
    Score(
        "global_own_accuracy",
        "Accuracy of the algorithm's global model on the clients' own test sets, mean over clients.",
        _average_column("global_own_accuracy"),
        "clients",
        needs="global_model",
    ),
)
"""Means over the clients of one round, from `TestColumns`; F1 is over the classes in the test set."""


EQUAL = 1e-12
"""Numbers are equal, but for rounding, if their variance is a smaller share of their mean square."""


def median_without_nan(values: ArrayLike) -> Array:
    """Compute the median over the last axis without the NaNs; NaN where all are NaN."""
    values = np.asarray(values, np.float64)
    measured = np.ma.masked_array(values, np.isnan(values))
    # `np.nanmedian` warns where there is no number, which is usual here: rounds without a test.
    medians = np.ma.median(measured, axis=-1)  # type: ignore[no-untyped-call]
    return np.asarray(np.ma.filled(medians, nan))


def compute_pooled_r2(tests: TestColumns) -> Array:
    """Compute R2 over the rows of all clients' own test sets as one set; NaN if all numbers are equal."""
    names = ("personalised_loss", "test_mean", "test_square", "test_images")
    columns = [np.asarray(tests[name], np.float64) for name in names]
    is_tested = ~np.isnan(np.sum(columns, axis=0))
    *means, count = (np.where(is_tested, column, 0) for column in columns)
    errors, total, squares = ((count * column).sum(axis=-1) for column in means)
    # The rows themselves are not recorded: each client's mean, mean square and number of rows are enough
    # for the total sum of squares.
    spread = squares - total**2 / np.maximum(1, count.sum(axis=-1))
    shares = np.divide(errors, spread, out=np.full(spread.shape, nan), where=spread > EQUAL * squares)
    return np.asarray(1 - shares)


UNDEFINED_REASONS = {"personalised_auc": "one class", "personalised_r2": "equal numbers"}
"""Score that not every client has -> content of the test set of a client that has none."""


def _build_client_count(score: str, needs: str = "") -> Score:
    """Build the score that counts the clients in the mean of another one; NaN in rounds without tests."""

    def count_clients(tests: TestColumns) -> Array:
        """Count the clients that have the score, NaN for none."""
        count = np.count_nonzero(~np.isnan(np.asarray(tests[score], np.float64)), axis=-1)
        return np.where(count, count, nan)

    return Score(
        f"{score}_clients",
        f"Number of clients that have a {score}, which its mean is over.",
        count_clients,
        highest=None,
        needs=needs,
    )


def format_coverage(score: str, counts: Iterable[tuple[float, int]]) -> str:
    """Format a sentence on the clients that a mean is over, empty if that is all of them.

    Args:
        score: a key of `UNDEFINED_REASONS`.
        counts: for each run the number of clients that have the score, and of all clients.
    """
    distinct = sorted({pair for pair in counts if not isnan(pair[0])})
    fewer = [f"{count:.0f} of {total} clients" for count, total in distinct if count < total]
    if not fewer:
        return ""
    least = f"{fewer[0]}{' at least' if len(distinct) > 1 else ''}"
    words = score.replace("_", " ").replace("r2", "R2").replace("auc", "AUC")
    return f"The mean {words} is over {least}: others are not tested, or on {UNDEFINED_REASONS[score]}."


PROBABILITIES = (
    *(
        Score(
            f"{kind}_{name}",
            f"{words} of the clusters' models on {images}, mean over clients (`evaluation.probabilities`).",
            _average_column(f"{kind}_{name}"),
            "clients",
            name != "ece",
            needs="probabilities",
        )
        for kind, images in SERVED
        for name, words in (
            ("auc", "AUC of a class against the rest, mean over the classes in the test set,"),
            ("ece", "Expected calibration error (Guo et al. 2017), 15 bins,"),
        )
    ),
    _build_client_count("personalised_auc", "probabilities"),
)
"""Further scores of clients, of runs whose records have probabilities."""


PREDICTED = (
    *(
        Score(
            f"{kind}_r2",
            f"R2 of the clusters' models on {images}, mean over clients (numbers to predict).",
            _average_column(f"{kind}_r2"),
            "clients",
            True,
            f"{short}\nR2",
        )
        for (kind, images), short in zip(SERVED, ("pers.", "gen."), strict=True)
    ),
    Score(
        "personalised_r2_median",
        "R2 of the clusters' models on their clients' own test sets, median of clients (numbers to predict).",
        lambda tests: median_without_nan(tests["personalised_r2"]),
        "clients",
        heading="median\nR2",
    ),
    Score(
        "personalised_r2_pooled",
        "R2 of the clusters' models on their clients' own test sets as one set (numbers to predict).",
        compute_pooled_r2,
        "clients",
        heading="pooled\nR2",
    ),
    _build_client_count("personalised_r2"),
)
"""Further scores of clients, of runs that predict numbers, which have no accuracy, F1 or recall."""


def select_client_scores(tests: TestColumns) -> tuple[Score, ...]:
    """Select the scores of a run's clients: `CLIENTS`, and those further ones that its records have."""
    further = (score for group in (PROBABILITIES, PREDICTED) if group[0].name in tests for score in group)
    return (*CLIENTS, *further)


LOCAL_SERVER = "local_server"
PUBLISHED_CLIENTS = (
    Score(
        "published_pf1",
        "F1 over the union of classes, of the cluster's model on the client's test set.",
        _average_column("personalised_f1_union"),
    ),
    Score(
        "published_gf1",
        "F1 over the union of classes, of the local model before aggregation on the server's test set.",
        _average_column("local_server_f1_union"),
        needs=LOCAL_SERVER,
    ),
    Score(
        "published_pa",
        "Accuracy of the cluster's model on the client's test set.",
        _average_column("personalised_accuracy"),
    ),
    Score(
        "published_ga",
        "Accuracy of the local model before aggregation on the server's test set.",
        _average_column("local_server_accuracy"),
        needs=LOCAL_SERVER,
    ),
    Score(
        "published_learning_gap",
        "The notebooks' DIST: |accuracy behind PA - accuracy behind GA|, row by row.",
        _gap_between("personalised_accuracy", "local_server_accuracy"),
        highest=None,
        needs=LOCAL_SERVER,
    ),
)
"""The published personalisation and generalisation: means over rounds and clients, from `TestColumns`.

Before aggregation means: in the first round the initial model, which no client has trained, and later the
locally trained one. The authors' archive has such a first row in all of its runs, ours records it so.
"""
PUBLISHED = frozenset(score.name for score in PUBLISHED_CLIENTS)


TRAINING = (
    Score(
        "train_loss",
        "Loss in local training, mean over clients.",
        _average_column("train_loss"),
        "training",
        False,
    ),
    Score(
        "train_accuracy",
        "Accuracy in local training, mean over clients.",
        _average_column("train_accuracy"),
        "training",
    ),
)
"""Local training in one round, computed from the columns of `clients.parquet`."""


ONLY_CURVES = (
    Score(
        "worst_tenth_accuracy",
        "Personalised accuracy of the tenth of the clients (rounded up) with the lowest, mean over these.",
        lambda tests: average_lowest_tenth(tests["personalised_accuracy"]),
    ),
    Score(
        "last_local_accuracy",
        "Accuracy of each client's own last model, as it was after its last local training, on its own test "
        "set; mean over all clients that have trained by then.",
        lambda tests: mean_without_nan(carry_forward(tests["local_own_accuracy"])),
    ),
)
"""Scores that `scores.json` of a run does not have, as its bytes stay; from columns of shape (R, K)."""


def carry_forward(values_RK: ArrayLike) -> Array:
    """Carry each client's last value forward to later rounds, shape (R, K), NaN before its first."""
    values_RK = np.asarray(values_RK, np.float64)
    # The index of the last round with a value so far; -1 before the first one.
    # A client that does not train in a round keeps the model of its last training.
    rounds_RK = np.where(np.isnan(values_RK), -1, np.arange(len(values_RK))[:, None])
    last_RK = np.maximum.accumulate(rounds_RK, axis=0)
    return np.asarray(np.where(last_RK < 0, np.nan, np.take_along_axis(values_RK, last_RK, axis=0)))


def compute_worse_share(mine_K: ArrayLike, theirs_K: ArrayLike) -> float:
    """Compute the share of clients whose score is below their other one; equal is not worse.

    Clients without one of the two (NaN) are left out; NaN if no client has both.
    """
    mine_K, theirs_K = np.asarray(mine_K, np.float64), np.asarray(theirs_K, np.float64)
    has_both_K = ~(np.isnan(mine_K) | np.isnan(theirs_K))
    return float((mine_K < theirs_K)[has_both_K].mean()) if has_both_K.any() else nan


RIVALS = {"worse_than_solo": "solo", "worse_than_fine_tuned": "fine-tuned"}
"""Score of `HARM` -> the algorithm with whose run a run is compared."""
HARM = tuple(
    Score(
        name,
        f"Share of the clients whose last personalised accuracy is below theirs in the run of `{rival}` with "
        "the same scenario, seed and settings in the grid.",
        compute_worse_share,
        highest=False,
    )
    for name, rival in RIVALS.items()
)
"""Scores of a run against another one of its grid, computed from the clients' last accuracies in both."""
