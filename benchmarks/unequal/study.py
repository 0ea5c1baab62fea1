"""The tables of the study: in how many federations of each family a rule finds exactly the hidden groups.

Shapes: K clients.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.group_shared_prefixes import decisions
from benchmarks.groups import same
from benchmarks.unequal.families import EVERY, FAMILIES
from benchmarks.unequal.rules import (
    RULES,
    Labels,
    Rule,
    by_silhouette,
    cut,
    pooled,
    silhouette,
    tree_of,
)
from benchmarks.unequal.trunks import Trunk

POOLED = 3
"""Rounds whose cosines are pooled."""
OURS = "evident-groups as it is"
WITH_GROUPS = tuple(family for family in FAMILIES if family != "none")
Method = Callable[[Trunk], Labels]


def family_of(trunk: Trunk) -> str:
    """Return the family of a stored federation."""
    return EVERY[trunk.kind].family


def ruled(rule: Rule, trunk: Trunk) -> Labels:
    """Return the groups that a rule finds in the pooled cosines."""
    return rule(pooled(trunk.gram_RKK, POOLED))


def told(trunk: Trunk) -> Labels:
    """Return the groups of Ward's tree at the true number."""
    return cut(tree_of(pooled(trunk.gram_RKK, POOLED)), trunk.num_groups)


def decided(name: str, settings: Mapping[str, Any], waited: int, trunk: Trunk) -> Labels:
    """Return the clusters of an algorithm after this number of rounds."""
    return list(decisions(trunk.as_prefix(waited), name, settings))[-1][1]


def told_ocfl(waited: int, trunk: Trunk) -> Labels:
    """Return the clusters of OCFL with k-means, told the true number."""
    return decided("ocfl-kmeans", {"clusterer": {"num_clusters": trunk.num_groups}}, waited, trunk)


def methods(waited: int) -> Mapping[str, Method]:
    """Return the rows of the tables; the algorithms themselves decide within this number of rounds."""
    return {
        OURS: partial(decided, "evident-groups", {}, waited),
        **{name: partial(ruled, rule) for name, rule in RULES.items()},
        "told the number: Ward": told,
        "told the number: OCFL-KM": partial(told_ocfl, waited),
    }


def right(method: Method, trunks: Sequence[Trunk]) -> Counter[str]:
    """Return in how many federations a method is exactly right, by family and by kind."""
    counts: Counter[str] = Counter()
    for trunk in trunks:
        if same(method(trunk), trunk.truth_K):
            counts.update((family_of(trunk), trunk.kind))
    return counts


def print_families(trunks: Sequence[Trunk], waited: int) -> None:
    """Print a row a method: federations with groups in which it is exactly right, by family and in all."""
    rows = methods(waited)
    grouped = [trunk for trunk in trunks if trunk.has_groups]
    sizes = Counter(map(family_of, grouped))
    _print_row("exactly right", *(f"{family}, of {sizes[family]}" for family in WITH_GROUPS), len(grouped))
    _print_row(*["---"] * (len(WITH_GROUPS) + 2))
    by_kind = {}
    for name, method in rows.items():
        counts = by_kind[name] = right(method, grouped)
        numbers = [counts[family] for family in WITH_GROUPS]
        _print_row(name, *numbers, sum(numbers))
    print()
    _print_row("kind", *rows, "federations")
    _print_row(*["---"] * (len(rows) + 2))
    for kind, count in Counter(trunk.kind for trunk in grouped).items():
        _print_row(kind, *(counts[kind] for counts in by_kind.values()), count)


def print_cut_up(trunks: Sequence[Trunk], waited: int) -> None:
    """Print in how many federations without groups `evident-groups` finds several clusters."""
    alone = [trunk for trunk in trunks if not trunk.has_groups]
    cut_up = Counter(trunk.kind for trunk in alone if methods(waited)[OURS](trunk).any())
    _print_row("cut up without groups", OURS, "federations")
    _print_row(*["---"] * 3)
    for kind, count in Counter(trunk.kind for trunk in alone).items():
        _print_row(kind, cut_up[kind], count)


def print_silhouettes(trunks: Sequence[Trunk], rule: Rule = by_silhouette) -> None:
    """Print the silhouettes of the groups that a rule finds: without groups, and where it is right."""
    _print_row("silhouette", "rounds", "federations", "least", "1 %", "5 %", "median", "most")
    _print_row(*["---"] * 8)
    for rounds in (2, 3, 4):
        found: dict[str, list[float]] = {}
        for trunk in trunks:
            cosines_KK = pooled(trunk.gram_RKK, rounds)
            labels_K = rule(cosines_KK)
            is_right = trunk.has_groups and same(labels_K, trunk.truth_K)
            if is_right or not trunk.has_groups:
                key = f"right, {family_of(trunk)}" if is_right else f"no groups, {trunk.kind}"
                found.setdefault(key, []).append(silhouette(cosines_KK, labels_K))
        for key, values in sorted(found.items()):
            shown = np.quantile(values, [0, 0.01, 0.05, 0.5, 1])
            _print_row(key, rounds, len(values), *(f"{value:.3f}" for value in shown))


def _print_row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
