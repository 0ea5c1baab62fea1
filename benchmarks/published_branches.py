"""Which rounds the published runs share, by Tables 1 and 2 of OCFL and by its authors' archive.

The tables show in which round a run leaves the shared prefix: the rounds that it shares with plain federated
averaging (BNC). That is computed once per scenario; a run that leaves it in round r of R computes the
rounds r..R itself. The first run that leaves in round r also stores the plain mean
(`grids.planning.start_order`). For other runs that leave in this round the cache has the similarities but no
means over their clusters, so that the clients are trained again. Source: arXiv:2509.01587. Pitfalls:

- A run that scores 0 in all three columns of Table 1 has one cluster to the end and never leaves it,
  whatever Table 2 says (there, a renamed cluster counts as a change).
- For SCL Table 2 has the last of many splits; the first is in round 22 in all 16 runs that split.
- The seeds of the published runs differ: the rounds of one scenario's OCFL runs differ by one or two, whereas
  ours see the same temperature and are equal. Used as they are, they share less than ours.
- The tables have no partitions, but a score of 1 in every round from Table 2's on means the hidden groups.
  Two such runs that leave in the same round are equal from there on. The true need lies between sharing
  nothing after leaving (`apart`) and sharing these (`shared`); equal wrong partitions would share more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedgrid.tracking.papers.ocfl.numbers import digits_of
from fedgrid.tracking.scoring.partitions import PUBLISHED_ROUNDS, PublishedClustering

GROUPS = 3
SATTLER_SPLITS = 22
SHARED_PREFIX = "BNC"


@dataclass(frozen=True)
class Branch:
    """A run that leaves the shared prefix."""

    algorithm: str
    start: int
    """The first round, from 1, that differs from BNC's."""
    clusters: int
    is_exact: bool
    """Whether its clusters equal the hidden groups from this round on."""


def branch(algorithm: str, clients: int, scores: PublishedClustering) -> Branch | None:
    """Return the branch of a published run, None if it never leaves the shared prefix."""
    if scores.published_rand == scores.published_ami == scores.published_com == 0:
        return None
    start = SATTLER_SPLITS if algorithm == "SCL" else scores.published_round
    whole = digits_of((PUBLISHED_ROUNDS + 1 - start) / PUBLISHED_ROUNDS)
    is_singletons = scores.published_rand == 0 and scores.published_com == whole
    return Branch(algorithm, start, clients if is_singletons else GROUPS, scores.published_rand == whole)


def computed(branches: Iterable[Branch]) -> list[Branch]:
    """Return one branch of those known to be equal, and all others."""
    return list({f"{each.start}" if each.is_exact else each.algorithm: each for each in branches}.values())


def rounds_computed(rounds: int, branches: Sequence[Branch], shared_prefix: int | None = None) -> int:
    """Return how many rounds a scenario's runs of `rounds` rounds compute together.

    Some run stays on the shared prefix until round `shared_prefix`, None if one stays to the end.
    """
    on_shared_prefix = rounds if shared_prefix is None else shared_prefix
    # The first run that leaves the shared prefix in a round computes that round for it, too.
    on_shared_prefix -= len({each.start for each in branches if each.start <= on_shared_prefix})
    return on_shared_prefix + sum(rounds + 1 - each.start for each in computed(branches))
