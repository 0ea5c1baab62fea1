"""The robust means: a fixture computed elsewhere, degenerate cases, and the definitions in float64."""

from itertools import pairwise

import numpy as np
import pytest
from pydantic import TypeAdapter

from fedgrid.algorithms.contract.aggregator import AnyAggregator
from fedgrid.algorithms.robust.before import count_attackers
from fedgrid.algorithms.updates.products import BLOCK
from tests.helpers.small_cases import build_updates, clients, frozen, rng

FIVE = [(1, 0), (2, 1), (3, 0), (2, -1), (10, 10)]
NNM = {"before": "nearest-neighbours"}
BUCKETS = {"before": {"name": "bucketing", "size": 2}}
PLAIN = [
    {"name": "trimmed-mean"},
    {"name": "geometric-median"},
    {"name": "krum"},
    {"name": "multi-krum"},
    {"name": "centred-clipping", "radius": 1, "steps": 3},
    {"name": "norm-clipping"},
]
ALL = [{**plain, **before} for plain in PLAIN for before in ({}, NNM, BUCKETS)]


def name_case(value):
    return "-".join(map(str, value.values())) if isinstance(value, dict) else None


def create(settings):
    return TypeAdapter(AnyAggregator).validate_python(settings)


def combine(vectors, settings, shares=None):
    return create(settings).combine([frozen(vector) for vector in vectors], shares).tolist()


def combine_group(vectors, settings, num_buffers=0, **options):
    updates = build_updates(clients(*vectors), num_buffers, **options)
    return create(settings).combine_groups(updates, [range(len(vectors))])[0].tolist()


def draw_rows(count=9, size=40):
    return rng(3).standard_normal((count, size)).astype(np.float32) + np.float32(1)


@pytest.mark.parametrize("take", [combine, combine_group])
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"name": "trimmed-mean"}, (2.3333, 0.3333)),
        ({"name": "geometric-median"}, (2.2563, 0.3891)),
        ({"name": "geometric-median", "steps": 100}, (2.2580, 0.3667)),
        ({"name": "krum"}, (1, 0)),
        ({"name": "multi-krum"}, (2, 0)),
        ({"name": "multi-krum", "keep": 0.4}, (1.5, 0.5)),
        ({"name": "centred-clipping", "radius": 1}, (0.8992, 0.1414)),
        ({"name": "centred-clipping", "radius": 1, "steps": 3}, (1.9278, 0.2681)),
        ({"name": "norm-clipping", "radius": 2}, (1.5984, 0.2828)),
        # Norms 1, 5^½, 3, 5^½, 200^½: the median is 5^½.
        ({"name": "norm-clipping"}, (1.7634, 0.3162)),
        # Nearest-neighbour mixing makes (2, 0) four times and (4, 2.75).
        ({"name": "trimmed-mean", **NNM}, (2, 0)),
        ({"name": "krum", **NNM}, (2, 0)),
        ({"name": "centred-clipping", "radius": 100, **NNM}, (2.4, 0.55)),
    ],
    ids=name_case,
)
def test_fixture_to_four_digits(settings, expected, take):
    """RIVALS, section C: five clients of which one lies, f = 1."""
    assert take(FIVE, settings) == pytest.approx(expected, abs=1e-4)


def test_weights_count_in_the_geometric_median_and_in_norm_clipping_alone():
    """Weights 3, 1, 1 are three equal clients more; of the others the results stay."""
    three, five = [(0, 0), (4, 0), (0, 4)], [(0, 0), (0, 0), (0, 0), (4, 0), (0, 4)]
    for name in ("geometric-median", "norm-clipping"):
        settings = {"name": name, **({"radius": 3} if name == "norm-clipping" else {})}
        assert combine(three, settings, (3, 1, 1)) == pytest.approx(combine(five, settings), abs=1e-6)
    for settings in (PLAIN[0], PLAIN[2], PLAIN[3], PLAIN[4], *({**plain, **NNM} for plain in PLAIN)):
        assert combine(three, settings, (3, 1, 1)) == combine(three, settings)


@pytest.mark.parametrize("settings", ALL, ids=name_case)
def test_one_client_or_equal_ones_give_their_vector(settings):
    settings = {**settings, **({"radius": 9} if "radius" in settings else {})}
    for count in (1, 2, 5):
        assert combine([(3, -1)] * count, settings) == pytest.approx([3, -1], abs=1e-6)
    assert combine([(0, 0)] * 3, settings) == [0, 0]


@pytest.mark.parametrize("settings", ALL, ids=name_case)
def test_two_clients_give_their_mean(settings):
    settings = {**settings, **({"radius": 9} if "radius" in settings else {})}
    assert combine([(3, 0), (0, 3)], settings) == pytest.approx([1.5, 1.5], abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "is_same_bits"),
    [
        ({"name": "trimmed-mean", "attackers": 0}, True),
        ({"name": "multi-krum", "attackers": 0}, True),
        ({"name": "norm-clipping", "radius": 1e9}, True),
        ({"name": "centred-clipping", "radius": 1e9}, True),
        ({"name": "trimmed-mean", "attackers": 0, "before": {"name": "bucketing", "size": 1}}, False),
        ({"name": "krum", "before": {"name": "nearest-neighbours", "attackers": 0}}, False),
        ({"name": "geometric-median", "before": {"name": "nearest-neighbours", "attackers": 0}}, False),
    ],
    ids=name_case,
)
def test_mean_if_nothing_is_cut(settings, is_same_bits):
    """Weights of 1/N round, so that mixtures differ from the mean in the last bit of float32."""
    rows = draw_rows()
    mean = combine(rows, {"name": "mean"})
    assert combine(rows, settings) == (mean if is_same_bits else pytest.approx(mean, rel=3e-7, abs=1e-7))


@pytest.mark.parametrize(
    ("share", "count", "most", "expected"),
    [(0.2, 5, 2, 1), (0.07, 100, 49, 7), (0.2, 4, 0, 0), (0.2, 2, -1, 0)],
)
def test_number_of_attackers_is_rounded_up_and_limited(share, count, most, expected):
    assert count_attackers(share, count, most) == expected


@pytest.mark.parametrize("settings", ALL, ids=name_case)
def test_groups_of_a_round_give_what_their_rows_give(settings):
    """Clients 0 to 8 and 9 to 13; distances see the whole state."""
    rows = draw_rows(14)
    updates = build_updates(clients(*rows), similarity_over="state", weights=dict.fromkeys(range(14), 2.0))
    groups = [list(range(9)), list(range(9, 14))]
    aggregate = create(settings).seed_round(rng(1))
    for vector_P, group in zip(aggregate.combine_groups(updates, groups), groups, strict=True):
        assert vector_P.dtype == np.float32
        assert vector_P.tolist() == pytest.approx(aggregate.combine(rows[group]).tolist(), rel=1e-6)


@pytest.mark.parametrize("settings", ALL, ids=name_case)
def test_buffers_are_combined_and_no_distance_sees_them(settings):
    """The last entry is a counter, by which client 0 would be the farthest; all of it is averaged."""
    rows = draw_rows(5, 4)
    counted = np.hstack([rows, np.full((5, 1), 7, np.float32)])
    counted[0, -1] = 1e6
    alone, both = combine_group(rows, settings), combine_group(counted, settings, num_buffers=1)
    assert both[:-1] == pytest.approx(alone, abs=1e-6)
    assert both[-1] > 0


def weigh_brute(rows, settings):
    """Return the geometric median or the clipped mean of float64 rows, by vectors and not by products."""
    if settings["name"] == "geometric-median":
        centre = rows.mean(axis=0)
        for _ in range(4):
            weights = 1 / np.maximum(1e-5, np.linalg.norm(rows - centre, axis=1))
            centre = weights @ rows / weights.sum()
        return centre
    if settings["name"] == "norm-clipping":
        norms = np.linalg.norm(rows, axis=1)
        return (rows * np.minimum(1, np.median(norms) / norms)[:, None]).mean(axis=0)
    if settings["name"] == "centred-clipping":
        centre = np.zeros(rows.shape[1])
        for _ in range(3):
            lengths = np.linalg.norm(rows - centre, axis=1)
            centre = centre + ((rows - centre) * np.minimum(1, 1 / lengths)[:, None]).mean(axis=0)
        return centre
    if settings["name"] == "trimmed-mean":
        return np.sort(rows, axis=0)[2:-2].mean(axis=0)
    sums = [np.sort(((rows - row) ** 2).sum(axis=1))[1 : len(rows) - 3].sum() for row in rows]
    return rows[np.argsort(sums)[: 1 if settings["name"] == "krum" else len(rows) - 2]].mean(axis=0)


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("settings", PLAIN, ids=name_case)
def test_definition_by_brute_force_in_float64(settings, mixed):
    """Nine clients, f = 2: the share of 0.2 is rounded up."""
    rows = draw_rows().astype(np.float64)
    if mixed:
        nearest = [np.argsort(((rows - row) ** 2).sum(axis=1))[:7] for row in rows]
        expected = weigh_brute(np.array([rows[near].mean(axis=0) for near in nearest]), settings)
    else:
        expected = weigh_brute(rows, settings)
    assert combine_group(rows, {**settings, **(NNM if mixed else {})}) == pytest.approx(expected, rel=1e-5)


def test_trimmed_mean_of_long_vectors_is_taken_in_blocks():
    rows = draw_rows(5, BLOCK + 5)
    expected = np.sort(rows, axis=0)[1:-1].mean(axis=0, dtype=np.float64)
    assert combine(rows, {"name": "trimmed-mean"}) == pytest.approx(expected.tolist(), rel=1e-6)


class TestBucketing:
    def test_buckets_share_all_clients_and_the_last_may_be_smaller(self):
        shares_MN = create({"name": "krum", **BUCKETS}).before.mix(np.zeros((5, 5)), rng())
        assert sorted(np.count_nonzero(shares_MN, axis=1)) == [1, 2, 2]
        assert shares_MN.sum(axis=1).tolist() == [1, 1, 1]
        assert np.count_nonzero(shares_MN, axis=0).tolist() == [1] * 5

    def test_one_seed_draws_one_result_and_rounds_differ(self):
        rows = draw_rows()
        aggregate = create({"name": "trimmed-mean", **BUCKETS})
        drawn = [aggregate.seed_round(rng(seed)).combine(rows).tolist() for seed in (0, 0, 1, 2)]
        assert drawn[0] == drawn[1]
        assert all(one != other for one, other in pairwise(drawn[1:]))

    def test_nothing_is_drawn_without_buckets(self):
        generator = rng()
        aggregate = create({"name": "krum", **NNM})
        assert aggregate.seed_round(generator) is aggregate
        assert generator.bit_generator.state == rng().bit_generator.state
