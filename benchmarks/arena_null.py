"""How often an arena of methods that are equal on average over families says that two of them differ.

    python -m benchmarks.arena_null [ARENAS]

Each arena has 30 families of two seeds and 18 methods, as the kept one. A method's score in a run is the
family's difficulty, a draw of the method in the family, and one of the run, so that differences of two
methods correlate by 0.8 within a family, as was measured. All draws of all methods have the same mean, though
not the same spread. The verdicts are those of `tracking.verdicts`: over families, after Holm's correction for
all pairs, or for the rivals of one method. Beside them the share of single tests below 0.05, over families,
and over runs as if seeds were blocks of their own.

Scores: `accuracy`, normal, without ties; `ARI`, 1 where the groups are found, which in four of five families
all methods do or none does; `ARI, rarely apart`, the same in nine of ten. `skewed` is what the test does not
protect from: half of the methods win much in few families and lose a little in many, the others the reverse,
so that they are equal by the mean, which is what "on average" says, and not by the median.
"""

import sys
from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from fedgrid.tracking.arrays import Array
from fedgrid.tracking.verdicts.power import judge

FAMILIES, SEEDS, METHODS = 30, 2, 18
CORRELATION = 0.8
"""Of the differences of two methods in two seeds of a family."""
ARENAS = 500
Draw = Callable[[np.random.Generator], Array]
"""Scores of an arena, shape (M methods, F families, S seeds)."""


def main() -> None:
    """Print the rates."""
    arenas = int(sys.argv[1]) if len(sys.argv) > 1 else ARENAS
    draws: Mapping[str, Draw] = {
        "accuracy": accuracies,
        "ARI": lambda rng: found_groups(rng, 0.2),
        "ARI, rarely apart": lambda rng: found_groups(rng, 0.1),
        "accuracy, skewed": skewed,
    }
    print(f"{arenas} arenas of {FAMILIES} families x {SEEDS} seeds, {METHODS} methods equal on average.")
    print("Share of arenas with a wrong verdict (at most 5 %), and of single tests with one:")
    headings = ("all pairs", "one method", "one pair", "seeds as blocks")
    print(f"{'score':20}" + "".join(f"{heading:>17}" for heading in headings))
    for name, draw in draws.items():
        rates = wrong(draw, arenas).mean(axis=0)
        print(f"{name:20}" + "".join(f"{100 * rate:>15.1f} %" for rate in rates))


def wrong(draw: Draw, arenas: int) -> Array:
    """Return for each arena whether there is a wrong verdict: among all pairs, on the first method, in the
    test of one pair, and in that test over runs; shape (arenas, 4)."""
    rng = np.random.default_rng(0)
    pairs = np.array([*combinations(range(METHODS), 2)])
    results = []
    for _ in range(arenas):
        scores_MFS = draw(rng)
        scores_MF = scores_MFS.mean(axis=2)
        runs_MN = scores_MFS.reshape(METHODS, -1)
        differences_PF = scores_MF[pairs[:, 0]] - scores_MF[pairs[:, 1]]
        samples = (
            *(differences_PF, differences_PF[: METHODS - 1], differences_PF[:1]),
            runs_MN[:1] - runs_MN[1:2],
        )
        results.append([any(word != "not shown" for word in judge(sample)) for sample in samples])
    return np.array(results)


def accuracies(rng: np.random.Generator) -> Array:
    """Return accuracies: normal differences, with a spread of each method's own."""
    return in_families(rng, rng.normal(size=(METHODS, FAMILIES)))


def skewed(rng: np.random.Generator) -> Array:
    """Return accuracies whose draws in families are exponential about their mean, every other method's
    reversed."""
    directions_M = np.where(np.arange(METHODS) % 2, 1, -1)
    return in_families(rng, directions_M[:, None] * (rng.exponential(size=(METHODS, FAMILIES)) - 1))


def in_families(rng: np.random.Generator, draws_MF: Array) -> Array:
    """Return the scores of runs: difficulty, and the draws of methods in families and in runs."""
    spread_M = rng.uniform(0.01, 0.1, METHODS)
    in_run_MFS = np.sqrt(1 - CORRELATION) * rng.normal(size=(METHODS, FAMILIES, SEEDS))
    of_method_MFS = np.sqrt(CORRELATION) * draws_MF[..., None] + in_run_MFS
    difficulty_FS = rng.normal(0.7, 0.15, (FAMILIES, 1)) + rng.normal(0, 0.02, (FAMILIES, SEEDS))
    return np.asarray(difficulty_FS + spread_M[:, None, None] * of_method_MFS)


def found_groups(rng: np.random.Generator, share_apart: float) -> Array:
    """Return ARI: in most families all methods have 1; in the others each finds the groups or does not, in
    both seeds alike but for one draw in five."""
    apart_F = rng.random(FAMILIES) < share_apart
    draws_MFS = np.where(
        rng.random((METHODS, FAMILIES, SEEDS)) < 0.5, 1.0, np.round(rng.random((METHODS, FAMILIES, SEEDS)), 1)
    )
    repeats_MF = rng.random((METHODS, FAMILIES)) < CORRELATION
    draws_MFS[..., 1] = np.where(repeats_MF, draws_MFS[..., 0], draws_MFS[..., 1])
    return np.where(apart_F[:, None], draws_MFS, 1.0)


if __name__ == "__main__":
    main()
