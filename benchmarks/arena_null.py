"""Test the arena's verdicts over families: how often do methods that are equal get one?

    python -m benchmarks.arena_null [ARENAS]

Families are variants of fewer kinds of clients, within which differences of two methods are alike. For each
question the first line shuffles the methods' names kind by kind, so that methods are equal but families of a
kind stay together: in how many of such arenas do the tests over families show any? At most 5 % should.
The lines below have the mean of each method, and how it differs from `evident-groups` and `fedavg` if a block
is a kind: p of an exact test that flips the sign of whole kinds, and p after Holm's correction.
"""

import sys
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from fedgrid.grids.arena import stored_results
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.scoring.paired_tests import apply_holm
from fedgrid.tracking.verdicts.field import CLUSTERING, SERVING, Field, Question, build_field
from fedgrid.tracking.verdicts.outcomes import Protocol
from fedgrid.tracking.verdicts.power import judge_pairs

ARENAS = 200
VARIED = ("disjoint", "rotated", "overlapping", "swapped", "two-levels", "iid", "dirichlet", "one-odd-client")
"""Beginnings of the names of families that are variants of one kind; another family is a kind of its own."""
RIVALS = ("evident-groups", "fedavg")
QUESTIONS: tuple[tuple[Question, Protocol], ...] = (
    (CLUSTERING, "served"),
    (SERVING, "served"),
    (SERVING, "fine-tuned"),
)


def main(arguments: Sequence[str] = ()) -> None:
    """Print, for each question and protocol, the share of false verdicts and a line for each method."""
    num_arenas = int(arguments[0]) if arguments else ARENAS
    outcomes = tuple(stored_results.read_results().outcomes.values())
    for question, protocol in QUESTIONS:
        field = build_field(outcomes, question, protocol, "")
        assert field is not None, "the kept rows have all methods"
        kinds_N = np.array([find_kind(family) for family in field.labels.values()])
        share = estimate_false_share(field, kinds_N, num_arenas)
        print(
            f"\n{question.name}, {protocol}: {len(kinds_N)} families of {len({*kinds_N})} kinds, "
            f"{len(field.ranks)} methods; {share:.0%} of {num_arenas} arenas of equal methods have a verdict"
        )
        rivals = [rival for rival in RIVALS if rival in field.ranks]
        columns = {rival: test_by_kind(field, kinds_N, rival) for rival in rivals}
        for method in field.ranks:
            cells = [
                f"{rival}: p {p:.3f}, Holm {corrected:.3f}"
                for rival in rivals
                if method != rival
                for p, corrected in [columns[rival][method]]
            ]
            print(f"  {method:16}{field.stack_scores(method).mean():.3f}  {'; '.join(cells)}")


def find_kind(family: str) -> str:
    """Find the kind of clients that a family is a variant of."""
    return next((kind for kind in VARIED if family.startswith(kind)), family)


def estimate_false_share(field: Field, kinds_N: Array, num_arenas: int) -> float:
    """Estimate the share of arenas that show any difference between methods that are equal.

    Names of methods are shuffled within each kind, so that families of a kind stay together.

    Args:
        field: the scores of all methods on N families.
        kinds_N: the kind of each family, shape (N,).
        num_arenas: how many shuffled arenas to draw.
    """
    rng = np.random.default_rng(0)
    scores_MN = np.stack([field.stack_scores(method) for method in field.ranks])
    pairs = np.array([*combinations(range(len(scores_MN)), 2)])
    count = 0
    for _ in range(num_arenas):
        shuffled_MN = scores_MN.copy()
        for kind in sorted({*kinds_N}):
            is_member_N = kinds_N == kind
            shuffled_MN[:, is_member_N] = scores_MN[rng.permutation(len(scores_MN))][:, is_member_N]
        verdicts = judge_pairs(shuffled_MN[pairs[:, 0]] - shuffled_MN[pairs[:, 1]])
        count += any(word != "not shown" for word in verdicts)
    return count / num_arenas


def test_by_kind(field: Field, kinds_N: Array, rival: str) -> dict[str, tuple[float, float]]:
    """Test each method's difference from `rival` by kind: method -> p, and p after Holm's correction."""
    methods = [method for method in field.ranks if method != rival]
    rival_N = field.stack_scores(rival)
    p_values = [compute_flip_p(field.stack_scores(method) - rival_N, kinds_N) for method in methods]
    return dict(zip(methods, zip(p_values, apply_holm(p_values), strict=True), strict=True))


def compute_flip_p(differences_N: Array, kinds_N: Array) -> float:
    """Compute the two-sided exact p of a sum whose sign may flip kind by kind."""
    sums = np.array([differences_N[kinds_N == kind].sum() for kind in sorted({*kinds_N})])
    # A kind without a difference has one sign; it would double the number of sums for nothing.
    sums = sums[np.abs(sums) > 1e-12]
    totals = np.zeros(1)
    for size in sums:
        totals = np.concatenate([totals + size, totals - size])
    # The tolerance counts sums as equal that differ by rounding alone: the order of additions varies.
    return float(np.mean(np.abs(totals) >= abs(sums.sum()) - 1e-12))


if __name__ == "__main__":
    main(sys.argv[1:])
