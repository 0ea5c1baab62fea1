"""In which order a grid's runs start."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest

from fedgrid.engine.run_config import RunConfig


def in_order(runs: Sequence[RunConfig], at_once: int = 1) -> list[RunConfig]:
    """Return the runs as they should start: data sets as declared, in each the longest runs first.

    A long run that starts last would keep a whole cluster waiting. Of a trunk, whoever acts first comes
    first: while it has the updates of that round it leaves the plain mean behind, with which the next one
    goes on. In the other order each would train the round in which it acts once more
    (`engine.round_cache.cached_round`).

    `at_once` is how many runs go side by side. Two of one trunk would want the same rounds at the same
    moment: one computes them, the other waits and its core idles. So `at_once` trunks take turns: the first
    run of each, then the second of each, until all of theirs have started. Only then come the next trunks
    (too few of them for a turn take part in the last), as the round store keeps what is large of a trunk
    until its last run has ended.
    """
    datasets = list(dict.fromkeys(run.dataset for run in runs))

    def length(run: RunConfig) -> tuple[int, ...]:
        work = run.training.rounds * run.training.local_epochs
        return datasets.index(run.dataset), -work, -run.clients

    longest_first: dict[tuple[int, ...], list[RunConfig]] = {
        key: [] for key in sorted(set(map(length, runs)))
    }
    for run in runs:
        longest_first[length(run)].append(run)
    return [run for alike in longest_first.values() for run in _by_turns(_trunks(alike), at_once)]


def _trunks(runs: Sequence[RunConfig]) -> list[list[RunConfig]]:
    """Return the runs by trunk, in each the algorithm first that acts first."""
    trunks: dict[str, list[RunConfig]] = {}
    for run in runs:
        trunks.setdefault(run.trunk, []).append(run)
    return [
        sorted(trunk, key=lambda run: run.make_algorithm().start_order_key()) for trunk in trunks.values()
    ]


def _by_turns(trunks: Sequence[list[RunConfig]], at_once: int) -> Iterable[RunConfig]:
    """Yield the first runs of the first `at_once` trunks, their second runs, ...; then those of the next."""
    blocks = max(1, len(trunks) // at_once)
    for block in range(blocks):
        start = block * at_once
        together = trunks[start : start + at_once if block < blocks - 1 else None]
        for turn in zip_longest(*together):
            yield from (run for run in turn if run is not None)
