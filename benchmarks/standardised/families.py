"""Families of federations, with hidden groups to find or without, as settings of runs.

A federation is one of a family's settings and a seed. All are for development: what was chosen was chosen on
them. A name that begins with "none" says that there are no groups to find.

`classes` is not a setting of a run: the data set's first classes alone (`few_classes.py`).
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

Settings = Mapping[str, Any]
Families = Mapping[str, Sequence[Settings]]
BOTH = ("balanced", "imbalanced")
OVERLAPS = ("nonoverlapping", "overlapping")


def shifted(kinds: Sequence[str], *sizes: Sequence[int], **split: Any) -> list[Settings]:
    """Return federations whose groups differ by what is done to their images."""
    return [
        {"clients": sum(each), "split": {"kind": kind, "sizes": list(each), **split}}
        for kind, each in product(kinds, sizes)
    ]


def ocfl(
    groups: int, clients: Sequence[int], balances: Sequence[str] = BOTH, overlaps: Sequence[str] = OVERLAPS
) -> list[Settings]:
    """Return federations of OCFL's splits with this many groups."""
    return [
        {"clients": number, "split": {"kind": f"{overlap}-{balance}", "num_clusters": groups}}
        for overlap, balance, number in product(overlaps, balances, clients)
    ]


def alone(clients: Sequence[int], *, classes: int | None = None, **split: Any) -> list[Settings]:
    """Return federations without groups, `iid` if `split` names no other kind."""
    of_classes = {} if classes is None else {"classes": classes}
    return [{"clients": number, "split": {"kind": "iid", **split}, **of_classes} for number in clients]


WITH_GROUPS: Families = {
    "rotated": shifted(["rotated"], (5, 5, 5, 5), (10, 10)),
    "flipped": shifted(["flipped"], (5, 5, 5, 5), (10, 10)),
    "swapped": shifted(["swapped"], (5, 5, 5, 5), (10, 10)),
    "rotated, unequal": shifted(
        ["rotated"], (10, 5, 3, 2), (12, 4, 2, 2), (8, 6, 4, 2), (14, 3, 3), (16, 4), (18, 2)
    ),
    "flipped, unequal": shifted(["flipped"], (10, 5, 3, 2), (14, 3, 3), (18, 2)),
    "swapped, unequal": shifted(["swapped"], (14, 6), (10, 5, 3, 2)),
    "30 clients, unequal": shifted(["rotated", "flipped"], (20, 6, 4)),
    "clients of unequal sizes": [
        *shifted(["rotated"], (5, 5, 5, 5), (10, 5, 3, 2), quantity=0.3),
        {"clients": 20, "split": {"kind": "overlapping-balanced", "quantity": 0.3}},
    ],
    "OCFL, 2 groups": ocfl(2, [15, 30], ["balanced"]),
    "OCFL, 3 groups": ocfl(3, [15, 30]),
    "OCFL, 5 groups": ocfl(5, [15, 30], ["balanced"]),
    "OCFL, 6 groups": ocfl(6, [30]),
    "OCFL, 10 groups": [
        *ocfl(10, [20], ["balanced"], ["nonoverlapping"]),
        *ocfl(10, [30], ["imbalanced"], ["nonoverlapping"]),
    ],
}
WITHOUT_GROUPS: Families = {
    "none, 6 to 30 clients": alone([6, 10, 20, 30]),
    "none, 60 and 100 clients": alone([60, 100]),
    "none, one group of OCFL's": [
        {"clients": number, "split": {"kind": "overlapping-balanced", "num_clusters": 1}}
        for number in (15, 30)
    ],
    "none, clients of unequal sizes": alone([20, 30], quantity=0.05),
    "none, Dirichlet": [
        *alone([20], kind="dirichlet", alpha=10.0),
        *alone([15], kind="dirichlet", alpha=100.0),
    ],
    "none, majority 0.1": alone([30], kind="majority", majority=0.1),
    "none, few classes": [
        *alone([20], classes=2),
        *alone([10, 20], classes=3),
        *alone([20], classes=5),
    ],
}
DEVELOPMENT: Families = {**WITH_GROUPS, **WITHOUT_GROUPS}
