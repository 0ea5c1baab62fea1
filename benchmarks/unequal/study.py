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
from benchmarks.unequal.families import FAMILIES, KINDS
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
WAITED = 4
"""Rounds within which the algorithms themselves have to decide."""
WITH_GROUPS = tuple(family for family in FAMILIES if family != "none")
Method = Callable[[Trunk], Labels]


def family_of(trunk: Trunk) -> str:
    """Return the family of a stored federation."""
    return KINDS[trunk.kind].family


def ruled(rule: Rule, trunk: Trunk) -> Labels:
    """Return the groups that a rule finds in the pooled cosines."""
    return rule(pooled(trunk.gram_RKK, POOLED))


def told(trunk: Trunk) -> Labels:
    """Return the groups of Ward's tree at the true number."""
    return cut(tree_of(pooled(trunk.gram_RKK, POOLED)), trunk.num_groups)


def decided(name: str, settings: Mapping[str, Any], trunk: Trunk) -> Labels:
    """Return the clusters of an algorithm after `WAITED` rounds."""
    return list(decisions(trunk.as_prefix(WAITED), name, settings))[-1][1]


def told_ocfl(trunk: Trunk) -> Labels:
    """Return the clusters of OCFL with k-means, told the true number."""
    return decided("ocfl-kmeans", {"clusterer": {"num_clusters": trunk.num_groups}}, trunk)


METHODS: Mapping[str, Method] = {
    "evident-groups as it is, four rounds": partial(decided, "evident-groups", {}),
    **{name: partial(ruled, rule) for name, rule in RULES.items()},
    "told the number: Ward": told,
    "told the number: OCFL-KM, four rounds": told_ocfl,
}


def right(method: Method, trunks: Sequence[Trunk]) -> Counter[str]:
    """Return in how many federations a method is exactly right, by family and by kind."""
    counts: Counter[str] = Counter()
    for trunk in trunks:
        if same(method(trunk), trunk.truth_K):
            counts.update((family_of(trunk), trunk.kind))
    return counts


def print_families(trunks: Sequence[Trunk]) -> None:
    """Print a row a method: federations with groups in which it is exactly right, by family and in all."""
    grouped = [trunk for trunk in trunks if trunk.num_groups > 1]
    sizes = Counter(map(family_of, grouped))
    _print_row("exactly right", *(f"{family}, of {sizes[family]}" for family in WITH_GROUPS), len(grouped))
    _print_row(*["---"] * (len(WITH_GROUPS) + 2))
    by_kind = {}
    for name, method in METHODS.items():
        counts = by_kind[name] = right(method, grouped)
        numbers = [counts[family] for family in WITH_GROUPS]
        _print_row(name, *numbers, sum(numbers))
    print()
    _print_row("kind", *METHODS, "federations")
    _print_row(*["---"] * (len(METHODS) + 2))
    for kind, count in Counter(trunk.kind for trunk in grouped).items():
        _print_row(kind, *(counts[kind] for counts in by_kind.values()), count)


def print_silhouettes(trunks: Sequence[Trunk], rule: Rule = by_silhouette) -> None:
    """Print the silhouettes of the groups that a rule finds: without groups, and where it is right."""
    _print_row("silhouette", "rounds", "federations", "least", "1 %", "5 %", "median", "most")
    _print_row(*["---"] * 8)
    for rounds in (2, 3, 4):
        found: dict[str, list[float]] = {}
        for trunk in trunks:
            cosines_KK = pooled(trunk.gram_RKK, rounds)
            labels_K = rule(cosines_KK)
            is_right = trunk.num_groups > 1 and same(labels_K, trunk.truth_K)
            if trunk.num_groups == 1 or is_right:
                key = f"right, {family_of(trunk)}" if is_right else f"no groups, {trunk.kind}"
                found.setdefault(key, []).append(silhouette(cosines_KK, labels_K))
        for key, values in sorted(found.items()):
            shown = np.quantile(values, [0, 0.01, 0.05, 0.5, 1])
            _print_row(key, rounds, len(values), *(f"{value:.3f}" for value in shown))


def _print_row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
