"""What the arena's tests over families are worth."""

import numpy as np
import pytest

from benchmarks.arena_null import compute_flip_p, find_kind, main


def test_signs_flip_kind_by_kind():
    """Two kinds: of the four sums 3 + 1, 3 - 1, -3 + 1, -3 - 1 two are as far from zero as the first."""
    assert compute_flip_p(np.array([1.0, 2.0, 1.0]), np.array(["a", "a", "b"])) == 0.5
    assert compute_flip_p(np.array([1.0, -1.0]), np.array(["a", "a"])) == 1.0


def test_variants_are_of_one_kind():
    families = ("rotated-drift", "one-odd-client-flipped", "dirichlet-0.1", "mnist1d-iid")
    assert [*map(find_kind, families)] == ["rotated", "one-odd-client", "dirichlet", "mnist1d-iid"]


def test_page_quotes_what_the_kept_rows_give(capsys: pytest.CaptureFixture[str]):
    main(["1"])
    printed = capsys.readouterr().out
    assert "27 families of 12 kinds, 10 methods" in printed
    assert "ocfl-affinity   0.778  evident-groups: p 0.174" in printed
    assert "evident-groups  0.892  fedavg: p 0.005, Holm 0.068" in printed
