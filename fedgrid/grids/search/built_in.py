"""The built-in search spaces of the algorithms, as they would stand in a file."""

from collections.abc import Callable
from typing import Any, TypeAlias

from fedgrid.algorithms.registry import ALGORITHMS
from fedgrid.engine.federation.errors import ConfigError

Given: TypeAlias = dict[str, Any]


def built_in(algorithm: str, rounds: int) -> Given:
    """Return the space of `algorithm`: its entry's own, or the built-in one.

    `rounds` is the length of the shortest run.

    Raises:
        ConfigError: if the algorithm has none.
    """
    if algorithm in ALGORITHMS and ALGORITHMS[algorithm].search:
        return dict(ALGORITHMS[algorithm].search)
    for family, space in FAMILIES.items():
        if algorithm.startswith(family):
            return space(algorithm, rounds)
    raise ConfigError(
        f"{algorithm} has no built-in search space (those that begin with {', '.join(FAMILIES)} have one); "
        "write a file with search: and its settings, or give a plugin's AlgorithmEntry a space of its own: "
        "search={...}"
    )


def settings_of(algorithm: str) -> frozenset[str]:
    """Return the settings of the space of `algorithm`, none if it has none."""
    if algorithm in ALGORITHMS and ALGORITHMS[algorithm].search:
        return frozenset(ALGORITHMS[algorithm].search)
    return frozenset(
        key
        for family, space in FAMILIES.items()
        if algorithm.startswith(family)
        for key in space(algorithm, 1)
    )


def _sattler(algorithm: str, rounds: int) -> Given:
    # The published variant's epsilons are norms, here of networks of the size of MNIST's, whose updates have
    # norms around 1. ResNets have other norms: they need a file.
    epsilons = {
        "epsilon_1": {"low": 0.05, "high": 2.0, "log": True},
        "epsilon_2": {"low": 0.1, "high": 5.0, "log": True},
    }
    shares = {"epsilon_1_share": {"low": 0.3, "high": 0.9}, "epsilon_2_share": {"low": 0.05, "high": 0.6}}
    return {
        **(shares if algorithm == "sattler" else epsilons),
        "cooldown": _when(rounds),
        "linkage": ["single", "complete"],
    }


def _briggs(algorithm: str, rounds: int) -> Given:
    when = _when(rounds)
    space = {
        "threshold": {"low": 0.05, "high": 1.0},
        "linkage": ["average", "complete", "single"],
        "round": {**when, "low": when["low"] + 1, "high": when["high"] + 1},
    }
    if algorithm == "briggs-as-published":
        del space["linkage"]
    return space


def _communities(algorithm: str, rounds: int) -> Given:
    return {
        "resolution": {"low": 0.5, "high": 2.0},
        "exponent": [1.0, 2.0, 3.0, 5.0],
        "attribution": ["avg", "1nn", "wnn"],
    }


def _ocfl(algorithm: str, rounds: int) -> Given:
    space: Given = {"window": {"low": 1, "high": max(2, rounds // 5)}}
    if algorithm == "ocfl-affinity":
        space["clusterer.damping"] = {"low": 0.5, "high": 0.95}
    if algorithm.startswith("ocfl-hdbscan"):
        space["clusterer.min_cluster_share"] = {"low": 0.1, "high": 0.4}
    return space


def _flis(algorithm: str, rounds: int) -> Given:
    height = "beta" if algorithm.startswith("flis-dc") else "threshold"
    return {height: {"low": 0.1, "high": 0.9}, "labels": ["hard", "soft"]}


def _evident_groups(algorithm: str, rounds: int) -> Given:
    return {"evidence": {"low": 4.0, "high": 16.0}, "window": {"low": 2, "high": max(3, rounds * 6 // 10)}}


def _lg_fedavg(algorithm: str, rounds: int) -> Given:
    return {"shared": [1, 2], "warmup_rounds": {"low": 0, "high": max(1, rounds * 6 // 10)}}


def _when(rounds: int) -> Given:
    """Return the range of rounds to cluster in: from a tenth to six tenths of a run, in tenths.

    The remaining rounds let the clusters' models improve.
    """
    tenth = max(1, rounds // 10)
    return {"low": tenth, "high": max(tenth + 1, rounds * 6 // 10), "step": tenth}


FAMILIES: dict[str, Callable[[str, int], Given]] = {
    "sattler": _sattler,
    "briggs": _briggs,
    "louvain": _communities,
    "leiden": _communities,
    "ocfl": _ocfl,
    "evident-groups": _evident_groups,
    "ifca": lambda algorithm, rounds: {"start": ["fresh", "deal", "rejection"]},
    "flis": _flis,
    "embeddings": lambda algorithm, rounds: {
        "threshold": ["best-ch", "widest-gap"],
        "normalise": ["class", "vector"],
    },
    "ladd": lambda algorithm, rounds: {"share": {"low": 0.05, "high": 0.45}, "per_class": [True, False]},
    "fedprox": lambda algorithm, rounds: {"mu": {"low": 0.001, "high": 1.0, "log": True}},
    "fednova": lambda algorithm, rounds: {"mu": {"low": 0.0, "high": 0.1}},
    "lg-fedavg": _lg_fedavg,
    "per-fedavg": lambda algorithm, rounds: {
        "alpha": {"low": 0.001, "high": 0.5, "log": True},
        "variant": ["first-order", "hessian-free"],
    },
}
