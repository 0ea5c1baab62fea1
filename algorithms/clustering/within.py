"""Groups within groups: is a community that was found itself two?

Modularity joins small groups that are near each other where others are far, and their union may have the
higher silhouette. So each community is cut in two by Ward's method, and the cut that takes most of the
squares away is judged against the noise within all communities,

    F = (squares of the community - squares of its halves) / (squares within all communities / degrees),

whose distribution under noise follows from draws of Gaussian vectors in communities of the same sizes.
Clients of one group differ in few dimensions, mostly in the shares of their classes: the noise has
`DIMENSIONS`, which makes the threshold higher than many dimensions would. A part has at least
`LEAST_MEMBERS`, because a single client that is unlike the others is no group.

Shapes: M clients that are clustered.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from fedgrid.algorithms.clustering.graph import Groups
from fedgrid.algorithms.contract.updates import Matrix

DIMENSIONS = 3
LEAST_MEMBERS = 2
DRAWS = 200
"""Federations of noise that are cut for a threshold."""
MOST_CLIENTS = 500
"""In larger federations communities stay as they are: the draws would take minutes."""

Cut = tuple[float, int, list[int], list[int]]
"""F, the position of the community, and its two parts."""


def split_further(cosines_MM: Matrix, groups: Groups, level: float) -> Groups:
    """Return the groups, cut in two as long as a cut passes the test; by first member, each ascending.

    Args:
        cosines_MM: cosines between updates, not centred.
        groups: positions of all M clients.
        level: share of draws of noise in which some community passes.
    """
    if len(cosines_MM) > MOST_CLIENTS:
        return groups
    while (cut := best_cut(cosines_MM, groups)) is not None:
        ratio, place, *parts = cut
        if ratio <= threshold([len(group) for group in groups], level):
            break
        groups = sorted([*groups[:place], *groups[place + 1 :], *parts])
    return groups


def threshold(sizes: Sequence[int], level: float) -> float:
    """Return the F that a cut of one of the communities of these sizes must exceed."""
    return float(np.quantile(_of_noise(tuple(sorted(sizes))), 1.0 - level))


def best_cut(gram_MM: Matrix, groups: Groups) -> Cut | None:
    """Return the cut of one of the groups with the largest F; None if no group can be cut."""
    degrees = len(gram_MM) - len(groups) - 1
    squares = [_squares(gram_MM, group) for group in groups]
    cuts: list[Cut] = []
    for place, group in enumerate(groups):
        parts = _halves(gram_MM, group) if degrees > 0 else None
        if parts is None:
            continue
        left = sum(_squares(gram_MM, part) for part in parts)
        noise = (sum(squares) - squares[place] + left) / degrees
        ratio = (squares[place] - left) / noise if noise > 0 else np.inf
        cuts.append((float(ratio), place, *parts))
    return max(cuts, key=lambda cut: cut[0], default=None)


def _squares(gram_MM: Matrix, group: Sequence[int]) -> float:
    """Return the sum of squared differences from the group's mean."""
    block = gram_MM[np.ix_(group, group)]
    return max(float(np.trace(block) - block.sum() / len(group)), 0.0)


def _halves(gram_MM: Matrix, group: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Return the two parts in which Ward's method joins a group last; None if one has too few members."""
    if len(group) < 2 * LEAST_MEMBERS:
        return None
    from scipy.cluster.hierarchy import fcluster, linkage

    block = gram_MM[np.ix_(group, group)]
    lengths = np.diagonal(block)
    squares = lengths[:, None] + lengths[None, :] - 2.0 * block
    distances = np.sqrt(np.maximum(squares[np.triu_indices(len(group), 1)], 0.0))
    labels = fcluster(linkage(distances, "ward"), 2, "maxclust")
    first, second = ([group[place] for place in np.flatnonzero(labels == label).tolist()] for label in (1, 2))
    return (first, second) if min(len(first), len(second)) >= LEAST_MEMBERS else None


@lru_cache(maxsize=256)
def _of_noise(sizes: tuple[int, ...]) -> tuple[float, ...]:
    """Return the largest F of each draw of noise; 0 where no community can be cut.

    The same in every run: part of the method, like a table of quantiles.
    """
    rng = np.random.default_rng(sizes)
    stops = np.cumsum(sizes)
    groups = [list(range(stop - size, stop)) for size, stop in zip(sizes, stops.tolist(), strict=True)]
    found = []
    for _ in range(DRAWS):
        vectors = rng.standard_normal((sum(sizes), DIMENSIONS))
        cut = best_cut(vectors @ vectors.T, groups)
        found.append(0.0 if cut is None else cut[0])
    return tuple(found)
