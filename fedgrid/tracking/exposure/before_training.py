"""What it costs to find clusters: before training by messages, or in training by updates.

Shapes: R rounds.
"""

from collections.abc import Callable, Sequence

import numpy as np

from fedgrid.tracking.scoring.run import Run
from fedgrid.tracking.scoring.study import Study
from fedgrid.tracking.tables.cells import algorithms_table, block_of, title_of
from fedgrid.tracking.tables.table import NONE, Column, Table, median

BITS, MEGA = 8, 1e6


def has_messages(study: Study) -> bool:
    """Return whether a finished run's clients say anything before they train."""
    return any(_total(result, "message_bytes") > 0 for result in study.finished)


def before_training(study: Study) -> Table:
    """Return a row an algorithm: what is sent before training and until the clusters are final, and the ARI.

    Raises:
        ValueError: if the study has several data sets or numbers of clients.
    """
    dataset, clients = block_of(study)
    epoch = _epoch_seconds(study)
    columns: Sequence[tuple[str, int, Callable[[Run], float]]] = (
        ("bits a client", 0, lambda result: BITS * _total(result, "message_bytes") / clients),
        ("MB in all", 3, lambda result: _before(result) / MEGA),
        ("epoch / message", 1, lambda result: epoch / _mean(result, "message_seconds")),
        ("MB until the clusters are final", 3, lambda result: until_final(result) / MEGA),
        ("ARI", 3, lambda result: result.last("ari")),
    )
    return algorithms_table(
        study,
        f"before-training-{dataset}-{clients}",
        f"Before training: {title_of(dataset, clients)}",
        "Medians over runs. Before training: bits that a client says about its data; megabytes of that, of "
        "the encoder's federated training and of its way to the clients, all together; how many times longer "
        "a local epoch takes than a message. Then the megabytes until no client changes its cluster any "
        f"more, and the ARI of the last round. {NONE}: one cluster throughout, or no message is sent.",
        (
            *(Column(heading, "before training") for heading, *_ in columns[:3]),
            *(Column(heading) for heading, *_ in columns[3:]),
        ),
        lambda part: (median([of(run) for run in part.finished], digits) for _, digits, of in columns),
    )


def until_final(result: Run) -> float:
    """Return the bytes sent until the partition is that of the last round; NaN of one cluster throughout.

    Clusters of messages are there before the first model is sent.
    """
    last_K = result.labels_RK[-1]
    if len(np.unique(result.labels_RK)) == 1:
        return np.nan
    others = np.flatnonzero((result.labels_RK != last_K).any(axis=1))
    first = int(others[-1]) + 1 if len(others) else 0
    if first == 0 and _before(result) > 0:
        return _before(result)
    return float(result.curves["bytes"][first])


def _before(result: Run) -> float:
    """Return the bytes of messages and of what they are made with."""
    return _total(result, "message_bytes") + _total(result, "encoder_bytes")


def _epoch_seconds(study: Study) -> float:
    """Return the mean seconds of a local epoch over runs that say so; a run whose rounds are cached does not.

    All train the same model on the same images.
    """
    known = [each for result in study.finished if not np.isnan(each := _mean(result, "epoch_seconds"))]
    return float(np.mean(known)) if known else np.nan


def _mean(result: Run, name: str) -> float:
    values_R = result.curves[name]
    return np.nan if np.isnan(values_R).all() else float(np.nanmean(values_R))


def _total(result: Run, name: str) -> float:
    return float(np.nansum(result.curves[name]))
