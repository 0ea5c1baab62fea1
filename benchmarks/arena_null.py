"""Test the arena's verdicts: how often do methods that are equal get one?

    python -m benchmarks.arena_null [ARENAS]

The methods' names are shuffled kind by kind on the kept rows, so that all methods are equal, and kinds keep
their sizes, ties and extremes. In how many of such arenas does a planned comparison show a difference? At
most 5 % should, in each question. The line below counts arenas in which any question has a false verdict. The
last lines have the least p of the kept rows themselves, after Holm's correction for the questions together.
"""

import sys
from collections.abc import Sequence

import numpy as np

from fedgrid.grids.arena import stored_results
from fedgrid.tracking.arrays import Array
from fedgrid.tracking.scoring.paired_tests import apply_holm
from fedgrid.tracking.verdicts.field import CLUSTERING, SERVING, Field, Question, build_field
from fedgrid.tracking.verdicts.outcomes import Protocol
from fedgrid.tracking.verdicts.power import compute_flip_p, judge_pairs
from fedgrid.tracking.verdicts.verdict import OWN_METHOD, plan_pairs

ARENAS = 2000
LINES = 6
"""Comparisons that are printed, those with the least p."""
QUESTIONS: tuple[tuple[Question, Protocol], ...] = (
    (CLUSTERING, "served"),
    (SERVING, "served"),
    (SERVING, "fine-tuned"),
)


def main(arguments: Sequence[str] = ()) -> None:
    """Print the share of arenas with a false verdict, for each question and for all of them."""
    num_arenas = int(arguments[0]) if arguments else ARENAS
    outcomes = tuple(stored_results.read_results().outcomes.values())
    is_any_B = np.zeros(num_arenas, dtype=bool)
    tests: list[tuple[float, str]] = []
    for question, protocol in QUESTIONS:
        field = build_field(outcomes, question, protocol)
        assert field is not None, "the kept rows have all methods"
        is_false_B = find_false_verdicts(field, num_arenas)
        is_any_B |= is_false_B
        pairs = plan_pairs([*field.ranks], OWN_METHOD)
        for one, other in pairs:
            p = compute_flip_p(field.average_kinds(one) - field.average_kinds(other))
            tests.append((p, f"{question.name}, {protocol}: {one} against {other}"))
        print(
            f"{question.name}, {protocol}: {len(field.kinds)} kinds, {len(pairs)} planned comparisons of "
            f"{len(field.ranks)} methods; {is_false_B.mean():.1%} of {num_arenas} arenas of equal methods "
            "have a verdict"
        )
    print(f"any of these: {is_any_B.mean():.1%}")
    corrected = apply_holm([p for p, _ in tests])
    for p, (_, words) in sorted(zip(corrected, tests, strict=True))[:LINES]:
        print(f"  {words}: p {p:.3f} of {len(tests)}")


def find_false_verdicts(field: Field, num_arenas: int) -> Array:
    """Find the shuffled arenas in which a planned comparison shows a difference, shape (num_arenas,)."""
    rng = np.random.default_rng(0)
    methods = [*field.ranks]
    scores_MN = np.stack([field.average_kinds(method) for method in methods])
    pairs = plan_pairs(methods, OWN_METHOD)
    places = np.array([[methods.index(name) for name in pair] for pair in pairs])
    verdicts = []
    for _ in range(num_arenas):
        shuffled_MN = rng.permuted(scores_MN, axis=0)
        words, _ = judge_pairs(shuffled_MN[places[:, 0]] - shuffled_MN[places[:, 1]])
        verdicts.append(any(word != "not shown" for word in words))
    return np.array(verdicts)


if __name__ == "__main__":
    main(sys.argv[1:])
