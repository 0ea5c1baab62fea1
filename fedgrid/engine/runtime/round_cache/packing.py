"""Reports, replies and tests of a round as named arrays and back, as entries of the round cache hold them.

Shapes: N clients of a round, or images of all tests, M models, L classes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedgrid.algorithms.updates.source import Arrays
from fedgrid.engine.federation.clients.messages import Reply, RoundTests, TrainReport, TrainTask
from fedgrid.engine.federation.clients.process import measure_own_peak
from fedgrid.engine.federation.training.confusion import Counts
from fedgrid.engine.federation.training.probabilities import Outputs

TRAIN_TESTS = ("local", "local_server")
"""Fields of a report that are tests."""
NUMBERS: Mapping[str, Any] = {
    "train_loss": np.float64,
    "train_accuracy": np.float64,
    "update_norm": np.float64,
    "usable": np.bool_,
    "checksum": np.int64,
    "images": np.int64,
    "steps": np.int64,
    "bytes_up": np.int64,
    "has_finite_memory": np.bool_,
}
"""Fields of a report that are stored as they are, with their types."""


def pack_reports(
    reports: Sequence[TrainReport], tasks: Sequence[TrainTask], remembering: frozenset[int] = frozenset()
) -> Arrays:
    """Pack the reports of `tasks` into arrays, without wall-clock times and peak memory.

    A client's choice is stored as its place among the candidates, whose positions another run may not share.
    `remembering` are the clients that have a memory.
    """
    chosen = [task.order.candidates.index(report.chosen) for report, task in zip(reports, tasks, strict=True)]
    arrays = {
        "client_N": np.array([report.client for report in reports], np.int64),
        "chosen_N": np.array(chosen, np.int64),
        "remembers_N": np.array([report.client in remembering for report in reports]),
        **{
            f"{name}_N": np.array([getattr(report, name) for report in reports], kind)
            for name, kind in NUMBERS.items()
        },
    }
    for test in TRAIN_TESTS:
        counts = [getattr(report, test) for report in reports]
        if None not in counts:
            arrays |= _pack_counts(test, counts)
    return arrays


def unpack_reports(arrays: Arrays, tasks: Sequence[TrainTask]) -> list[TrainReport]:
    """Unpack reports; they took this process no time."""
    tests = {test: _unpack_counts(test, arrays) for test in TRAIN_TESTS}

    columns = {name: arrays[f"{name}_N"].tolist() for name in ("client", "chosen", *NUMBERS)}
    peak = measure_own_peak()
    return [
        TrainReport(
            client=columns["client"][index],
            chosen=task.order.candidates[columns["chosen"][index]],
            seconds=0.0,
            peak_memory=peak,
            local=tests["local"][index] if tests["local"] else None,
            local_server=tests["local_server"][index] if tests["local_server"] else None,
            **{name: columns[name][index] for name in NUMBERS},
        )
        for index, task in enumerate(tasks)
    ]


def pack_replies(replies: Sequence[Reply], tasks: Sequence[TrainTask]) -> Arrays:
    """Pack replies with all their arrays, named `<client>/<kind>/<name>`."""
    arrays = dict(pack_reports([reply.report for reply in replies], tasks))
    for reply in replies:
        kinds = {"update": {"P": reply.update}, "outputs": reply.outputs, "memory": reply.memory}
        for kind, named in kinds.items():
            arrays |= {f"{reply.report.client}/{kind}/{name}": array for name, array in named.items()}
    return arrays


def unpack_replies(arrays: Arrays, tasks: Mapping[int, TrainTask]) -> dict[int, Reply]:
    """Unpack replies by client; `tasks` has the task of each client."""
    clients = arrays["client_N"].tolist()
    reports = unpack_reports(arrays, [tasks[client] for client in clients])
    return {
        client: Reply(
            report,
            arrays[f"{client}/update/P"],
            _select_arrays(arrays, f"{client}/outputs/"),
            _select_arrays(arrays, f"{client}/memory/"),
        )
        for client, report in zip(clients, reports, strict=True)
    }


def pack_tests(tests: RoundTests) -> Arrays:
    """Pack the tests of a round into arrays."""
    return {
        "client_N": np.array(list(tests.own), np.int64),
        **_pack_counts("own", list(tests.own.values())),
        **_pack_counts("server", tests.server),
        "choosing_N": np.array(list(tests.chosen), np.int64),
        "place_N": np.array(list(tests.chosen.values()), np.int64),
    }


def unpack_tests(arrays: Arrays) -> RoundTests:
    """Unpack the tests of a round."""
    return RoundTests(
        own=dict(zip(arrays["client_N"].tolist(), _unpack_counts("own", arrays), strict=True)),
        server=tuple(_unpack_counts("server", arrays)),
        chosen=dict(zip(arrays["choosing_N"].tolist(), arrays["place_N"].tolist(), strict=True)),
    )


def _select_arrays(arrays: Arrays, prefix: str) -> Arrays:
    """Select the arrays whose names start with a prefix, and cut that off."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _pack_counts(test: str, counts: Sequence[Counts]) -> dict[str, np.ndarray]:
    """Pack the results of a test; loss sums are float64, as they were added up."""
    arrays = {
        f"{test}_confusion_LL": np.array([count.confusion for count in counts], np.int32),
        f"{test}_loss_sum": np.array([count.loss_sum for count in counts]),
    }
    if counts and counts[0].moments is not None:
        arrays[f"{test}_moments_N2"] = np.array([count.moments for count in counts])
    outputs = [count.outputs for count in counts if count.outputs is not None]
    if outputs:
        arrays[f"{test}_logits_NL"] = np.concatenate([each.logits_NL for each in outputs])
        arrays[f"{test}_label_N"] = np.concatenate([each.label_N for each in outputs])
    return arrays


def _unpack_counts(test: str, arrays: Arrays) -> list[Counts]:
    """Unpack the results of a test; none if it was not made."""
    if f"{test}_loss_sum" not in arrays:
        return []
    confusions = arrays[f"{test}_confusion_LL"].astype(np.int64)
    losses = arrays[f"{test}_loss_sum"].tolist()
    outputs: list[Outputs | None] = [None] * len(losses)
    if f"{test}_label_N" in arrays:
        # The sum of a confusion matrix is its number of images, and so the length of its part of the outputs.
        ends = np.cumsum([confusion.sum() for confusion in confusions])[:-1]
        parts = (np.split(arrays[f"{test}_{name}"], ends) for name in ("logits_NL", "label_N"))
        outputs = [Outputs(*part) for part in zip(*parts, strict=True)]
    moments: list[tuple[float, float] | None] = [None] * len(losses)
    if f"{test}_moments_N2" in arrays:
        moments = [(total, squares) for total, squares in arrays[f"{test}_moments_N2"].tolist()]
    return [Counts(*fields) for fields in zip(confusions, losses, outputs, moments, strict=True)]
