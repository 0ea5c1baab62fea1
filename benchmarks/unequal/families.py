"""The federations of the study: 31 kinds with groups and 9 without, all of digits with the usual training."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.unequal.edits import Edit, flipped, of_classes, rotated, swapped, thinned

FAMILIES = ("equal", "unequal", "images", "ocfl", "none")
"""Groups of equal sizes and of unequal ones; unequal numbers of images; OCFL's splits; no groups."""


@dataclass(frozen=True)
class Kind:
    """Federations that differ by their seed alone."""

    family: str
    """One of `FAMILIES`."""
    clients: int
    split: Mapping[str, Any]
    edit: Edit | None = None
    """What is done to the training images that the split deals out."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the training that are not the usual ones."""


def _alike(family: str, clients: int, edit: Edit | None) -> Kind:
    return Kind(family, clients, {"kind": "iid"}, edit)


def _ocfl(overlap: str, balance: str, clients: int, groups: int, family: str = "ocfl") -> Kind:
    return Kind(family, clients, {"kind": f"{overlap}-{balance}", "num_clusters": groups})


OCFL = (
    ("balanced", 15, 3),
    ("imbalanced", 15, 3),
    ("imbalanced", 30, 3),
    ("balanced", 15, 2),
    ("balanced", 30, 2),
    ("balanced", 30, 5),
    ("imbalanced", 30, 6),
)
"""Balance, clients and groups of OCFL's splits, with and without overlap."""
KINDS: Mapping[str, Kind] = {
    "rotated 5/5/5/5": _alike("equal", 20, rotated((5, 5, 5, 5))),
    "flipped 5/5/5/5": _alike("equal", 20, flipped((5, 5, 5, 5))),
    "swapped 10/10": _alike("equal", 20, swapped((10, 10))),
    "swapped 5/5/5/5": _alike("equal", 20, swapped((5, 5, 5, 5))),
    "rotated 10/5/3/2": _alike("unequal", 20, rotated((10, 5, 3, 2))),
    "flipped 10/5/3/2": _alike("unequal", 20, flipped((10, 5, 3, 2))),
    "rotated 12/4/2/2": _alike("unequal", 20, rotated((12, 4, 2, 2))),
    "rotated 8/6/4/2": _alike("unequal", 20, rotated((8, 6, 4, 2))),
    "rotated 14/3/3": _alike("unequal", 20, rotated((14, 3, 3))),
    "rotated 18/2": _alike("unequal", 20, rotated((18, 2))),
    "rotated 16/4": _alike("unequal", 20, rotated((16, 4))),
    "flipped 14/3/3": _alike("unequal", 20, flipped((14, 3, 3))),
    "swapped 14/6": _alike("unequal", 20, swapped((14, 6))),
    "rotated 20/6/4": _alike("unequal", 30, rotated((20, 6, 4))),
    "rotated 5/5/5/5, images 30 to 100 %": _alike("images", 20, thinned(0.3, rotated((5, 5, 5, 5)))),
    "overlapping 3, images 30 to 100 %": Kind("images", 20, {"kind": "overlapping-balanced"}, thinned(0.3)),
    **{
        f"{overlap}-{balance} {groups} groups, {clients} clients": _ocfl(overlap, balance, clients, groups)
        for overlap in ("nonoverlapping", "overlapping")
        for balance, clients, groups in OCFL
    },
    "nonoverlapping-imbalanced 10 groups, 30 clients": _ocfl("nonoverlapping", "imbalanced", 30, 10),
    **{f"iid, {clients} clients": _alike("none", clients, None) for clients in (10, 20, 30, 60)},
    "one group, 15 clients": _ocfl("overlapping", "balanced", 15, 1, "none"),
    "one group, 30 clients": _ocfl("overlapping", "balanced", 30, 1, "none"),
    "iid, images 5 to 100 %": _alike("none", 30, thinned(0.05)),
    "Dirichlet(10)": Kind("none", 20, {"kind": "dirichlet", "alpha": 10.0}),
    "Dirichlet(100)": Kind("none", 15, {"kind": "dirichlet", "alpha": 100.0}),
}
"""By name, as the tables print it."""
MORE: Mapping[str, Kind] = {
    **{f"iid, {clients} clients": _alike("none", clients, None) for clients in (6, 100)},
    **{
        f"iid, {classes} classes, {clients} clients": _alike("none", clients, of_classes(classes))
        for classes, clients in ((2, 20), (3, 10), (3, 20), (5, 20))
    },
    "majority 0.1, 30 clients": Kind("none", 30, {"kind": "majority", "majority": 0.1}),
}
"""Federations that the referee's study did not have: all without groups."""
EVERY = {**KINDS, **MORE}
