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


def build_shifted(kinds: Sequence[str], *sizes: Sequence[int], **split: Any) -> list[Settings]:
    """Build federations whose groups differ by what is done to their images."""
    return [
        {"clients": sum(each), "split": {"kind": kind, "sizes": list(each), **split}}
        for kind, each in product(kinds, sizes)
    ]


def build_ocfl(
    groups: int, clients: Sequence[int], balances: Sequence[str] = BOTH, overlaps: Sequence[str] = OVERLAPS
) -> list[Settings]:
    """Build federations of OCFL's splits with this many groups.

    Args:
        groups: number of hidden groups.
        clients: a federation for each of these numbers of clients.
        balances: whether groups have equal sizes; both by default.
        overlaps: whether groups share classes; both by default.
    """
    return [
        {"clients": number, "split": {"kind": f"{overlap}-{balance}", "num_clusters": groups}}
        for overlap, balance, number in product(overlaps, balances, clients)
    ]


def build_ungrouped(clients: Sequence[int], *, classes: int | None = None, **split: Any) -> list[Settings]:
    """Build federations without groups, `iid` if `split` names no other kind."""
    of_classes = {} if classes is None else {"classes": classes}
    return [{"clients": number, "split": {"kind": "iid", **split}, **of_classes} for number in clients]


def add_settings(federations: Sequence[Settings], **settings: Any) -> list[Settings]:
    """Add settings of the run to each federation."""
    return [{**given, **settings} for given in federations]


def build_label_noise(clients: int, share: float) -> dict[str, Any]:
    """Build the faults of every third client, whose labels are drawn again at this share."""
    return {"label_noise": {str(client): share for client in range(0, clients, 3)}}


OTHER_TRAINING = {"local_epochs": 3, "batch_size": 8, "momentum": 0.9, "learning_rate": 0.01}
ON_MNIST = {"dataset": "mnist", "model": "lenet5"}
WITH_GROUPS: Families = {
    "rotated": build_shifted(["rotated"], (5, 5, 5, 5), (10, 10)),
    "flipped": build_shifted(["flipped"], (5, 5, 5, 5), (10, 10)),
    "swapped": build_shifted(["swapped"], (5, 5, 5, 5), (10, 10)),
    "rotated, unequal": build_shifted(
        ["rotated"], (10, 5, 3, 2), (12, 4, 2, 2), (8, 6, 4, 2), (14, 3, 3), (16, 4), (18, 2)
    ),
    "flipped, unequal": build_shifted(["flipped"], (10, 5, 3, 2), (14, 3, 3), (18, 2)),
    "swapped, unequal": build_shifted(["swapped"], (14, 6), (10, 5, 3, 2)),
    "30 clients, unequal": build_shifted(["rotated", "flipped"], (20, 6, 4)),
    "clients of unequal sizes": [
        *build_shifted(["rotated"], (5, 5, 5, 5), (10, 5, 3, 2), quantity=0.3),
        {"clients": 20, "split": {"kind": "overlapping-balanced", "quantity": 0.3}},
    ],
    "OCFL, 2 groups": build_ocfl(2, [15, 30], ["balanced"]),
    "OCFL, 3 groups": build_ocfl(3, [15, 30]),
    "OCFL, 5 groups": build_ocfl(5, [15, 30], ["balanced"]),
    "OCFL, 6 groups": build_ocfl(6, [30]),
    "OCFL, 10 groups": [
        *build_ocfl(10, [20], ["balanced"], ["nonoverlapping"]),
        *build_ocfl(10, [30], ["imbalanced"], ["nonoverlapping"]),
    ],
}
WITHOUT_GROUPS: Families = {
    "none, 6 to 30 clients": build_ungrouped([6, 10, 20, 30]),
    "none, 60 and 100 clients": build_ungrouped([60, 100]),
    "none, one group of OCFL's": [
        {"clients": number, "split": {"kind": "overlapping-balanced", "num_clusters": 1}}
        for number in (15, 30)
    ],
    "none, clients of unequal sizes": build_ungrouped([20, 30], quantity=0.05),
    "none, Dirichlet": [
        *build_ungrouped([20], kind="dirichlet", alpha=10.0),
        *build_ungrouped([15], kind="dirichlet", alpha=100.0),
    ],
    "none, majority 0.1": build_ungrouped([30], kind="majority", majority=0.1),
    "none, few classes": [
        *build_ungrouped([20], classes=2),
        *build_ungrouped([10, 20], classes=3),
        *build_ungrouped([20], classes=5),
    ],
}
LATER: Families = {
    "participation 0.3": [
        *add_settings(build_shifted(["rotated"], (8, 7, 5), (10, 10)), participation=0.3),
        *add_settings(build_ocfl(3, [15], ["balanced"]), participation=0.3),
    ],
    "none, participation 0.3": add_settings(build_ungrouped([15, 20]), participation=0.3),
    "none, one odd client": [
        *build_shifted(["rotated", "flipped", "noisy"], (19, 1)),
        *add_settings(build_ungrouped([20]), faults={"label_noise": {"19": 1.0}}),
        *add_settings(build_ungrouped([20]), faults={"label_flip": [19]}),
    ],
    "none, two odd clients": build_shifted(["rotated", "flipped", "swapped"], (18, 1, 1)),
    "none, a third with noise of their own": build_shifted(["noisy"], (14, *[1] * 6)),
    "none, a continuum": [
        *build_ungrouped([20], kind="continuum", arc=90.0),
        *build_ungrouped([20], kind="continuum", arc=180.0),
        *build_ungrouped([20], kind="continuum", arc=360.0),
        *build_shifted(["dimmed"], [1] * 20),
    ],
}
"""A client that is alone with what is done to its images is no group to find."""
DEVELOPMENT: Families = {**WITH_GROUPS, **WITHOUT_GROUPS, **LATER}
HELD_OUT: Families = {
    "dimmed": build_shifted(["dimmed"], (10, 10), (14, 6), (5, 5, 5, 5)),
    "noisy": build_shifted(["noisy"], (10, 10), (14, 6), (10, 5, 3, 2)),
    "majority 0.5 and 0.8": [
        {"clients": 20, "split": {"kind": "majority", "num_clusters": 2, "majority": share}}
        for share in (0.5, 0.8)
    ],
    "noisy labels": [
        *add_settings(build_shifted(["rotated"], (10, 7, 3), (12, 8)), faults=build_label_noise(20, 0.4)),
        *add_settings(build_ocfl(3, [21], ["balanced"]), faults=build_label_noise(21, 0.4)),
    ],
    "60 clients": [
        *build_shifted(["rotated", "flipped"], (30, 20, 10)),
        *build_ocfl(3, [60], ["imbalanced"]),
    ],
    "100 clients": [
        *build_shifted(["rotated", "swapped"], (60, 30, 10)),
        *build_ocfl(5, [100], ["balanced"]),
    ],
    "OCFL, 4 and 7 groups": [*build_ocfl(4, [20], ["imbalanced"]), *build_ocfl(7, [28], ["balanced"])],
    "other training": [
        *add_settings(build_shifted(["rotated", "swapped"], (11, 6, 3)), training=OTHER_TRAINING),
        *add_settings(build_ocfl(3, [18], ["imbalanced"]), training=OTHER_TRAINING),
    ],
    "half of the clients a round": [
        *add_settings(build_shifted(["rotated"], (7, 5, 3), (8, 7)), participation=0.5),
        *add_settings(build_ocfl(3, [15], ["balanced"]), participation=0.5),
    ],
    "MNIST, lenet5": add_settings(build_ocfl(3, [20], ["imbalanced"]), **ON_MNIST),
    "none, 40 and 80 clients": build_ungrouped([40, 80]),
    "none, noisy labels": add_settings(build_ungrouped([20]), faults=build_label_noise(20, 0.4)),
    "none, clients with 2 to 100 % of their images": build_ungrouped([25], quantity=0.02),
    "none, Dirichlet(5) and (30)": [
        *build_ungrouped([20], kind="dirichlet", alpha=5.0),
        *build_ungrouped([20], kind="dirichlet", alpha=30.0),
    ],
    "none, 4 and 7 classes": [*build_ungrouped([15], classes=4), *build_ungrouped([25], classes=7)],
    "none, other training": add_settings(build_ungrouped([15, 25]), training=OTHER_TRAINING),
    "none, half of the clients a round": add_settings(build_ungrouped([15]), participation=0.5),
}
"""MNIST needs its files (`--data`). Rotated, all its 60,000 images are dealt out: more than two cores do."""

JUDGED: Families = {
    "new sizes (9/7/4, 13/4/3)": build_shifted(["rotated", "flipped", "swapped"], (9, 7, 4), (13, 4, 3)),
    "swapped, 40 to 100 % of their images": build_shifted(["swapped"], (12, 8), (8, 6, 6), quantity=0.4),
    "two levels, 24 clients": build_shifted(["two-levels"], (6, 6, 6, 6), (9, 6, 5, 4)),
    "dimmed, 24 clients (14/10)": build_shifted(["dimmed"], (14, 10)),
    "OCFL, 2 and 4 groups, 24 clients": [
        *build_ocfl(2, [24], ["imbalanced"]),
        *build_ocfl(4, [24], ["balanced"]),
    ],
    "OCFL, 40 to 100 % of their images": [
        {"clients": 24, "split": {"kind": kind, "quantity": 0.4}}
        for kind in ("overlapping-balanced", "nonoverlapping-imbalanced")
    ],
    "50 clients (30/15/5)": build_shifted(["rotated", "swapped"], (30, 15, 5)),
    "participation 0.4": [
        *add_settings(build_shifted(["flipped"], (9, 6)), participation=0.4),
        *add_settings(build_ocfl(3, [18], ["imbalanced"]), participation=0.4),
    ],
    "none, two odd clients of 30": build_shifted(["rotated", "flipped"], (28, 1, 1)),
    "none, one odd client of 15 or 30": [
        *build_shifted(["swapped"], (14, 1)),
        *add_settings(build_ungrouped([30]), faults={"label_noise": {"0": 1.0}}),
        *add_settings(build_ungrouped([15]), faults={"sign_flip": [7]}),
    ],
    "none, eight of 24 with noise of their own": build_shifted(["noisy"], (16, *[1] * 8)),
    "none, a continuum of 24 (120 degrees)": build_ungrouped([24], kind="continuum", arc=120.0),
    "none, a ring of 30": build_ungrouped([30], kind="continuum", arc=360.0),
    "none, a continuum of 16 (brightness)": build_shifted(["dimmed"], [1] * 16),
    "none, a continuum of 24 (noise)": build_shifted(["noisy"], [1] * 24),
    "none, participation 0.4": add_settings(build_ungrouped([18]), participation=0.4),
    "none, 24 clients": [
        *build_ungrouped([24]),
        *build_ungrouped([24], quantity=0.1),
        *build_ungrouped([24], kind="dirichlet", alpha=3.0),
    ],
}


def has_groups(family: str) -> bool:
    """Check whether the federations of a family have groups to find."""
    return not family.startswith("none")
