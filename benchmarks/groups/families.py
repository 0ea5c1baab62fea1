"""Families of federations, with hidden groups to find or without, as settings of runs.

A federation is one of a family's settings and a seed. A name that begins with "none" says that there are no
groups to find. What `evident-groups` does was chosen on `DEVELOPMENT`, at first without `LATER`, in which are
kinds of federations that then went wrong. `HELD_OUT` was written down before the first run on any of its
families; the rules for odd clients, continua and partial participation saw other seeds of these. `JUDGED`
was written down before the first run on any of its families, and judges those rules.

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


def each(federations: Sequence[Settings], **settings: Any) -> list[Settings]:
    """Return federations with settings of the run that all share."""
    return [{**given, **settings} for given in federations]


def noisy_labels(clients: int, share: float) -> dict[str, Any]:
    """Return faults of every third client, who has this share of its labels drawn anew."""
    return {"label_noise": {str(client): share for client in range(0, clients, 3)}}


OTHER_TRAINING = {"local_epochs": 3, "batch_size": 8, "momentum": 0.9, "learning_rate": 0.01}
ON_MNIST = {"dataset": "mnist", "model": "lenet5"}
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
LATER: Families = {
    "participation 0.3": [
        *each(shifted(["rotated"], (8, 7, 5), (10, 10)), participation=0.3),
        *each(ocfl(3, [15], ["balanced"]), participation=0.3),
    ],
    "none, participation 0.3": each(alone([15, 20]), participation=0.3),
    "none, one odd client": [
        *shifted(["rotated", "flipped", "noisy"], (19, 1)),
        *each(alone([20]), faults={"label_noise": {"19": 1.0}}),
        *each(alone([20]), faults={"label_flip": [19]}),
    ],
    "none, two odd clients": shifted(["rotated", "flipped", "swapped"], (18, 1, 1)),
    "none, a third with noise of their own": shifted(["noisy"], (14, *[1] * 6)),
    "none, a continuum": [
        *alone([20], kind="continuum", arc=90.0),
        *alone([20], kind="continuum", arc=180.0),
        *alone([20], kind="continuum", arc=360.0),
        *shifted(["dimmed"], [1] * 20),
    ],
}
"""A client that is alone with what is done to its images is no group to find."""
DEVELOPMENT: Families = {**WITH_GROUPS, **WITHOUT_GROUPS, **LATER}
HELD_OUT: Families = {
    "dimmed": shifted(["dimmed"], (10, 10), (14, 6), (5, 5, 5, 5)),
    "noisy": shifted(["noisy"], (10, 10), (14, 6), (10, 5, 3, 2)),
    "majority 0.5 and 0.8": [
        {"clients": 20, "split": {"kind": "majority", "num_clusters": 2, "majority": share}}
        for share in (0.5, 0.8)
    ],
    "noisy labels": [
        *each(shifted(["rotated"], (10, 7, 3), (12, 8)), faults=noisy_labels(20, 0.4)),
        *each(ocfl(3, [21], ["balanced"]), faults=noisy_labels(21, 0.4)),
    ],
    "60 clients": [
        *shifted(["rotated", "flipped"], (30, 20, 10)),
        *ocfl(3, [60], ["imbalanced"]),
    ],
    "100 clients": [*shifted(["rotated", "swapped"], (60, 30, 10)), *ocfl(5, [100], ["balanced"])],
    "OCFL, 4 and 7 groups": [*ocfl(4, [20], ["imbalanced"]), *ocfl(7, [28], ["balanced"])],
    "other training": [
        *each(shifted(["rotated", "swapped"], (11, 6, 3)), training=OTHER_TRAINING),
        *each(ocfl(3, [18], ["imbalanced"]), training=OTHER_TRAINING),
    ],
    "half of the clients a round": [
        *each(shifted(["rotated"], (7, 5, 3), (8, 7)), participation=0.5),
        *each(ocfl(3, [15], ["balanced"]), participation=0.5),
    ],
    "MNIST, lenet5": each(ocfl(3, [20], ["imbalanced"]), **ON_MNIST),
    "none, 40 and 80 clients": alone([40, 80]),
    "none, noisy labels": each(alone([20]), faults=noisy_labels(20, 0.4)),
    "none, clients with 2 to 100 % of their images": alone([25], quantity=0.02),
    "none, Dirichlet(5) and (30)": [
        *alone([20], kind="dirichlet", alpha=5.0),
        *alone([20], kind="dirichlet", alpha=30.0),
    ],
    "none, 4 and 7 classes": [*alone([15], classes=4), *alone([25], classes=7)],
    "none, other training": each(alone([15, 25]), training=OTHER_TRAINING),
    "none, half of the clients a round": each(alone([15]), participation=0.5),
}
"""MNIST needs its files (`--data`). Rotated, all its 60,000 images are dealt out: more than two cores do."""

JUDGED: Families = {
    "new sizes (9/7/4, 13/4/3)": shifted(["rotated", "flipped", "swapped"], (9, 7, 4), (13, 4, 3)),
    "swapped, 40 to 100 % of their images": shifted(["swapped"], (12, 8), (8, 6, 6), quantity=0.4),
    "two levels, 24 clients": shifted(["two-levels"], (6, 6, 6, 6), (9, 6, 5, 4)),
    "dimmed, 24 clients (14/10)": shifted(["dimmed"], (14, 10)),
    "OCFL, 2 and 4 groups, 24 clients": [*ocfl(2, [24], ["imbalanced"]), *ocfl(4, [24], ["balanced"])],
    "OCFL, 40 to 100 % of their images": [
        {"clients": 24, "split": {"kind": kind, "quantity": 0.4}}
        for kind in ("overlapping-balanced", "nonoverlapping-imbalanced")
    ],
    "50 clients (30/15/5)": shifted(["rotated", "swapped"], (30, 15, 5)),
    "participation 0.4": [
        *each(shifted(["flipped"], (9, 6)), participation=0.4),
        *each(ocfl(3, [18], ["imbalanced"]), participation=0.4),
    ],
    "none, two odd clients of 30": shifted(["rotated", "flipped"], (28, 1, 1)),
    "none, one odd client of 15 or 30": [
        *shifted(["swapped"], (14, 1)),
        *each(alone([30]), faults={"label_noise": {"0": 1.0}}),
        *each(alone([15]), faults={"sign_flip": [7]}),
    ],
    "none, eight of 24 with noise of their own": shifted(["noisy"], (16, *[1] * 8)),
    "none, a continuum of 24 (120 degrees)": alone([24], kind="continuum", arc=120.0),
    "none, a ring of 30": alone([30], kind="continuum", arc=360.0),
    "none, a continuum of 16 (brightness)": shifted(["dimmed"], [1] * 16),
    "none, a continuum of 24 (noise)": shifted(["noisy"], [1] * 24),
    "none, participation 0.4": each(alone([18]), participation=0.4),
    "none, 24 clients": [
        *alone([24]),
        *alone([24], quantity=0.1),
        *alone([24], kind="dirichlet", alpha=3.0),
    ],
}


def has_groups(family: str) -> bool:
    """Return whether the federations of a family have groups to find."""
    return not family.startswith("none")
