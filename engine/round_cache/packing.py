"""What clients report, as named arrays and back: what the round store keeps of a round's training and tests.

Shapes: N clients of a round, M models, L classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from fedgrid.algorithms.contract.source import Arrays
from fedgrid.engine.clients.messages import EvaluateReport, TrainReport, TrainTask
from fedgrid.engine.clients.peak_memory import own_peak
from fedgrid.engine.training.confusion import Counts

TRAIN_TESTS = ("local", "local_server")


@dataclass(frozen=True)
class Tests:
    """The aggregated models' tests."""

    own: Mapping[int, Counts]
    """Client -> its cluster's model on its own test set."""
    server: Sequence[Counts]
    """Each model on the server's test set."""


def pack_reports(reports: Sequence[TrainReport], tasks: Sequence[TrainTask], remembers: set[int]) -> Arrays:
    """Return the reports of `tasks`, but for clock and memory readings.

    A client's choice is kept as its place among the candidates, whose numbers another run may not share.
    `remembers` are the clients whose optimizer keeps something.
    """
    arrays = {
        "client_N": np.array([report.client for report in reports], np.int64),
        "chosen_N": np.array(
            [task.candidates.index(report.chosen) for report, task in zip(reports, tasks, strict=True)],
            np.int64,
        ),
        "train_loss_N": np.array([report.train_loss for report in reports]),
        "train_accuracy_N": np.array([report.train_accuracy for report in reports]),
        "update_norm_N": np.array([report.update_norm for report in reports]),
        "usable_N": np.array([report.usable for report in reports]),
        "remembers_N": np.array([report.client in remembers for report in reports]),
    }
    for test in TRAIN_TESTS:
        counts = [getattr(report, test) for report in reports]
        if None not in counts:
            arrays |= _pack(test, counts)
    return arrays


def unpack_reports(arrays: Arrays, tasks: Sequence[TrainTask]) -> list[TrainReport]:
    """Return the reports that were packed; they took this process no time."""
    tests = {test: _unpack(test, arrays) for test in TRAIN_TESTS}
    return [
        TrainReport(
            client=int(arrays["client_N"][index]),
            chosen=task.candidates[int(arrays["chosen_N"][index])],
            train_loss=float(arrays["train_loss_N"][index]),
            train_accuracy=float(arrays["train_accuracy_N"][index]),
            update_norm=float(arrays["update_norm_N"][index]),
            usable=bool(arrays["usable_N"][index]),
            **{test: counts[index] if counts else None for test, counts in tests.items()},
            seconds=0.0,
            memory=own_peak(),
        )
        for index, task in enumerate(tasks)
    ]


def pack_tests(reports: Sequence[EvaluateReport]) -> Arrays:
    """Return the tests of aggregated models; parts of the server's set are added up by client."""
    server = [reduce(add, parts) for parts in zip(*(report.server_parts for report in reports), strict=True)]
    clients = np.array([report.client for report in reports], np.int64)
    return {
        "client_N": clients,
        **_pack("own", [report.own for report in reports]),
        **_pack("server", server),
    }


def unpack_tests(arrays: Arrays) -> Tests:
    """Return the tests that were packed."""
    own, server = _unpack("own", arrays), _unpack("server", arrays)
    return Tests(dict(zip(arrays["client_N"].tolist(), own, strict=True)), server)


def _pack(test: str, counts: Sequence[Counts]) -> dict[str, np.ndarray]:
    return {
        f"{test}_confusion_LL": np.array([each.confusion for each in counts], np.int32),
        f"{test}_loss_sum": np.array([each.loss_sum for each in counts]),
    }


def _unpack(test: str, arrays: Arrays) -> list[Counts]:
    if f"{test}_loss_sum" not in arrays:
        return []
    confusions = arrays[f"{test}_confusion_LL"].astype(np.int64)
    return [
        Counts(confusion, loss)
        for confusion, loss in zip(confusions, arrays[f"{test}_loss_sum"].tolist(), strict=True)
    ]
