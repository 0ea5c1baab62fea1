"""Tables of docs/our-algorithm.md: who finds the hidden groups exactly, and who cuts up where there are none?

    OMP_NUM_THREADS=1 python -m benchmarks.groups --seeds 100..119              # the held-out seeds
    python -m benchmarks.groups --seeds 0..4 --only three,none
    python -m benchmarks.groups --seeds 0..2 --only MNIST --rounds 3 --data ../shared/data

A column for each method: in how many federations its clusters are the hidden groups, or, in the set `none`,
how many it cuts up. Last the rounds in which `evident-groups` clusters, median and greatest; after the / the
rounds in which the last two clients have met, where not all are asked.

Federations are trained once and kept in `--folder`; methods then decide on the same updates
(`benchmarks.group_shared_prefixes`).
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.group_shared_prefixes import SharedPrefix, all_met, decisions, shared_prefix_of

TOLD = "told"
"""In place of a clusterer's settings: as many clusters as there are hidden groups."""
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "evident-groups": ("evident-groups", {}),
    "without k-means": ("evident-groups", {"restarts": 0}),
    "affinity": ("ocfl-affinity", {}),
    "HDBSCAN": ("ocfl-hdbscan", {}),
    "k-means, told": ("ocfl-kmeans", {"clusterer": TOLD}),
    "BCL, round 3": ("briggs", {"round": 3, "threshold": 0.4}),
}
Settings = Mapping[str, Any]


def shifted(kinds: Sequence[str], groups: Sequence[int], clients: Sequence[int]) -> list[Settings]:
    """Return federations whose groups differ by what is done to their images."""
    return [
        {"clients": number, "split": {"kind": kind, "num_clusters": count}}
        for kind, count, number in product(kinds, groups, clients)
    ]


def split(groups: Sequence[int], clients: Sequence[int], balances: Sequence[str]) -> list[Settings]:
    """Return federations of OCFL's splits with so many groups."""
    return [
        {"clients": number, "split": {"kind": f"{overlap}-{balance}", "num_clusters": count}}
        for overlap, balance, number, count in product(
            ("nonoverlapping", "overlapping"), balances, clients, groups
        )
    ]


BOTH = ("balanced", "imbalanced")
SETS: Mapping[str, Sequence[Settings]] = {
    "three": split([3], [15, 30], BOTH),
    "two": split([2], [15, 30], ["balanced"]),
    "five": split([5], [15, 30], ["balanced"]),
    "six": split([6], [30], BOTH),
    "ten groups of 2 to 4": [
        {"clients": clients, "split": {"kind": f"nonoverlapping-{balance}", "num_clusters": 10}}
        for balance, clients in (("balanced", 20), ("imbalanced", 30))
    ],
    "rotated": shifted(["rotated"], [4, 2], [20]),
    "flipped": shifted(["flipped"], [4, 2], [20]),
    "swapped": shifted(["swapped"], [4, 2], [20]),
    "rotated unequal": [
        {"clients": 20, "split": {"kind": "rotated", "num_clusters": count, "alpha": 1.0}} for count in (4, 2)
    ],
    "participation 0.5": [{**given, "participation": 0.5} for given in split([3], [15, 30], BOTH)],
    "participation 0.2": [{**given, "participation": 0.2} for given in split([3], [15], BOTH)],
    "MNIST": [
        {**given, "dataset": "mnist", "split": {**given["split"], "draws": 285}}
        for given in split([3], [15, 30], BOTH)
    ],
    "none": [
        *({"clients": clients, "split": {"num_clusters": 1}} for clients in (10, 15, 20, 30, 50)),
        *({"clients": clients, "split": {"kind": "majority", "majority": 0.1}} for clients in (15, 30)),
        *({"clients": clients, "split": {"kind": "dirichlet", "alpha": 100}} for clients in (10, 15, 30)),
    ],
}


def main() -> None:
    """Train what is missing, let every method decide, and print a row a set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="0..4")
    parser.add_argument("--only", default=",".join(name for name in SETS if name != "MNIST"), help="Sets.")
    parser.add_argument("--rounds", type=int, default=5, help="With partial participation more.")
    parser.add_argument("--folder", type=Path, default=Path("runs/group-shared-prefixes"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    given = parser.parse_args()
    first, _, last = given.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    began = time.process_time()
    print(f"| {' | '.join(('seeds ' + given.seeds, 'federations', *METHODS, 'in round'))} |")
    for name in given.only.split(","):
        shared_prefixes = [
            shared_prefix_of({**case, "seed": seed}, given.rounds, given.folder, given.data)
            for case, seed in product(SETS[name], seeds)
        ]
        counts = [count(shared_prefixes, name == "none", *method) for method in METHODS.values()]
        print(
            f"| {' | '.join((name, str(len(shared_prefixes)), *counts, rounds_of(shared_prefixes)))} |",
            flush=True,
        )
    print(f"{time.process_time() - began:.0f} s of a core")


def count(shared_prefixes: Sequence[SharedPrefix], none: bool, name: str, settings: Settings) -> str:
    """Return in how many federations a method is right; without groups, how many it cuts up."""
    if none and TOLD in settings.values():
        return "–"
    return str(sum(succeeds(shared_prefix, none, name, settings) for shared_prefix in shared_prefixes))


def rounds_of(shared_prefixes: Sequence[SharedPrefix]) -> str:
    """Return the median and the greatest round in which `evident-groups` clusters, and when all have met."""
    histories = [list(decisions(shared_prefix, "evident-groups", {})) for shared_prefix in shared_prefixes]
    found = [history[-1][0] for history in histories if len(set(history[-1][1].tolist())) > 1]
    met = [all_met(len(shared_prefix.truth_K), shared_prefix.rounds) for shared_prefix in shared_prefixes]
    shown = [f"{np.median(numbers):g}, {max(numbers)}" for numbers in (found, met) if numbers]
    return " / ".join(shown if max(met) > 1 else shown[: len(found) > 0])


def succeeds(shared_prefix: SharedPrefix, none: bool, name: str, settings: Settings) -> bool:
    """Return whether the final clusters are the hidden groups; without groups, whether there are several."""
    groups = len(set(shared_prefix.truth_K.tolist()))
    settings = {key: {"num_clusters": groups} if value == TOLD else value for key, value in settings.items()}
    labels_K = list(decisions(shared_prefix, name, settings))[-1][1]
    if none:
        return len(set(labels_K.tolist())) > 1
    return same(labels_K, shared_prefix.truth_K)


def same(labels_K: np.ndarray, truth_K: np.ndarray) -> bool:
    """Return whether two partitions are the same but for the numbers of their clusters."""
    pairs = set(zip(labels_K.tolist(), truth_K.tolist(), strict=True))
    return len(pairs) == len(set(labels_K.tolist())) == len(set(truth_K.tolist()))


if __name__ == "__main__":
    main()
