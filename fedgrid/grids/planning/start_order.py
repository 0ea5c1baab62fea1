"""Sort a grid's runs in the order in which they start."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.runtime.plugins.run_algorithm import build_algorithm


def sort_runs(runs: Sequence[RunConfig], at_once: int = 1) -> list[RunConfig]:
    """Sort runs: by data set as declared, then the longest first.

    A long run that starts last would keep a whole cluster waiting. Within a shared prefix, start the run that
    diverges from FedAvg earliest: in the round in which it diverges it also caches FedAvg's mean, with which
    the next run continues (`runtime.round_cache.cached_round`). Of `at_once` runs side by side, two with one
    shared prefix would need the same round at the same time, and one would wait. So `at_once` shared prefixes
    take turns: the first run of each, then the second run of each, and so on to their ends; then the next. A
    last group smaller than `at_once` joins the group before it. They are not all mixed because the round
    cache holds a shared prefix's large entries until its last run has ended.
    """
    datasets = list(dict.fromkeys(run.dataset for run in runs))

    def find_key(run: RunConfig) -> tuple[int, ...]:
        work = run.training.rounds * (run.training.local_steps or run.training.local_epochs)
        return datasets.index(run.dataset), -work, -run.clients

    longest_first: dict[tuple[int, ...], list[RunConfig]] = {
        key: [] for key in sorted(set(map(find_key, runs)))
    }
    for run in runs:
        longest_first[find_key(run)].append(run)
    return [run for alike in longest_first.values() for run in _take_turns(_group_by_prefix(alike), at_once)]


def _group_by_prefix(runs: Sequence[RunConfig]) -> list[list[RunConfig]]:
    """Group the runs by shared prefix, each group sorted by the first round that can differ from FedAvg."""
    shared_prefixes: dict[str, list[RunConfig]] = {}
    for run in runs:
        shared_prefixes.setdefault(run.shared_prefix, []).append(run)
    return [
        sorted(shared_prefix, key=lambda run: build_algorithm(run).start_order_key())
        for shared_prefix in shared_prefixes.values()
    ]


def _take_turns(shared_prefixes: Sequence[list[RunConfig]], at_once: int) -> Iterable[RunConfig]:
    """Yield the first runs of `at_once` shared prefixes, then their second ones ...; then of the next."""
    blocks = max(1, len(shared_prefixes) // at_once)
    for block in range(blocks):
        start = block * at_once
        together = shared_prefixes[start : start + at_once if block < blocks - 1 else None]
        for turn in zip_longest(*together):
            yield from (run for run in turn if run is not None)
