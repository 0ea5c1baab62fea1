"""The view of a round's updates, against float64 NumPy."""

import numpy as np
import pytest
from small_cases import clients, frozen, rng, updates_of

from algorithms import updates as module


def random_vectors(num_clients=5, size=1000, seed=0):
    return {
        client: frozen(vector) for client, vector in enumerate(rng(seed).normal(size=(num_clients, size)))
    }


def stacked(vectors):
    return np.stack([np.asarray(vectors[client], np.float64) for client in sorted(vectors)])


def exact_cosine_distances(vectors):
    rows_KP = stacked(vectors)
    units_KP = rows_KP / np.linalg.norm(rows_KP, axis=1, keepdims=True)
    return 1 - units_KP @ units_KP.T


@pytest.fixture(params=[None, 64, 7], ids=["one block", "blocks of 64", "blocks of 7"])
def _block(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(module, "BLOCK", request.param)


@pytest.mark.usefixtures("_block")
def test_products_norms_and_distances_match_numpy():
    vectors = random_vectors()
    view, rows_KP = updates_of(vectors), stacked(vectors)
    gram_KK = rows_KP @ rows_KP.T
    differences = rows_KP[:, None] - rows_KP[None]
    np.testing.assert_allclose(view.gram_KK, gram_KK, atol=1e-5 * gram_KK.max())
    np.testing.assert_allclose(view.norms_K, np.linalg.norm(rows_KP, axis=1), rtol=1e-5)
    np.testing.assert_allclose(view.mean_norm, np.linalg.norm(rows_KP.mean(axis=0)), rtol=1e-5)
    np.testing.assert_allclose(view.cosine_distances_KK, exact_cosine_distances(vectors), atol=1e-5)
    np.testing.assert_allclose(view.euclidean_distances_KK, np.linalg.norm(differences, axis=2), rtol=1e-5)
    np.testing.assert_allclose(view.manhattan_distances_KK, np.abs(differences).sum(axis=2), rtol=1e-6)


@pytest.mark.usefixtures("_block")
def test_mean_is_the_unweighted_mean_over_the_whole_state():
    vectors = random_vectors()
    mean = updates_of(vectors, num_buffers=400).mean()
    assert mean.dtype == np.float32
    np.testing.assert_allclose(mean, stacked(vectors).mean(axis=0), rtol=1e-6, atol=1e-7)


def test_two_clients_by_hand():
    """u = (3, 4), v = (6, 0): <u, v> = 18, cos = 18 / 30 = 0.6, u - v = (-3, 4), mean (4.5, 2)."""
    view = updates_of(clients((3, 4), (6, 0)))
    assert view.gram_KK.tolist() == [[25, 18], [18, 36]]
    assert view.norms_K.tolist() == [5, 6]
    assert view.cosine_distances_KK == pytest.approx(np.array([[0, 0.4], [0.4, 0]]))
    assert view.euclidean_distances_KK.tolist() == [[0, 5], [5, 0]]
    assert view.manhattan_distances_KK.tolist() == [[0, 7], [7, 0]]
    assert view.mean().tolist() == [4.5, 2]
    assert view.mean_norm == pytest.approx(np.sqrt(4.5**2 + 2**2))


def test_clients_are_in_ascending_order_whatever_the_order_they_came_in():
    view = updates_of({7: (0, 3), 2: (1, 0), 5: (0, 2)})
    assert view.clients == (2, 5, 7)
    assert view.norms_K.tolist() == [1, 2, 3]


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 7)
    one, two = (updates_of(random_vectors(), threads=threads) for threads in (1, 2))
    for name in (
        "gram_KK",
        "norms_K",
        "cosine_distances_KK",
        "euclidean_distances_KK",
        "manhattan_distances_KK",
    ):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    assert one.mean().tobytes() == two.mean().tobytes()


def test_a_zero_update_is_at_distance_one_from_every_other():
    distances_KK = updates_of(clients((1, 0), (0, 0), (0, 2), (0, 0))).cosine_distances_KK
    assert distances_KK.tolist() == [[0, 1, 1, 1], [1, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 0]]


def test_a_zero_update_may_come_first():
    distances_KK = updates_of(clients((0, 0), (3, 4), (6, 0))).cosine_distances_KK
    np.testing.assert_allclose(distances_KK, [[0, 1, 1], [1, 0, 0.4], [1, 0.4, 0]], atol=1e-7)


def test_cosine_distances_lie_between_zero_and_two():
    distances_KK = updates_of(clients((1, 1), (-2, -2), (3, 3))).cosine_distances_KK
    np.testing.assert_allclose(distances_KK, [[0, 2, 0], [2, 0, 2], [0, 2, 0]], atol=1e-6)
    assert distances_KK.min() >= 0
    assert distances_KK.max() <= 2


@pytest.mark.parametrize("scaled", [0, 3], ids=["the reference", "another"])
@pytest.mark.parametrize("factor", [1e-3, 8.0, 1e3])
def test_scaling_an_update_moves_no_cosine(scaled, factor):
    vectors = random_vectors()
    before = updates_of(vectors).cosine_distances_KK
    after = updates_of({**vectors, scaled: vectors[scaled] * np.float32(factor)}).cosine_distances_KK
    np.testing.assert_allclose(after, before, atol=1e-4)


def test_nearly_parallel_updates_keep_their_distances():
    """A common part a thousand times larger, as BatchNorm counters are: distances of about 1e-6.

    A float32 Gram matrix rounds at 6e-8 of the squared norm, 6 % of such a distance.
    """
    random = rng()
    common = 1e3 * random.normal(size=1000)
    vectors = {client: frozen(common + random.normal(size=1000)) for client in range(6)}
    expected_KK = exact_cosine_distances(vectors)
    pairs = ~np.eye(6, dtype=bool)
    assert expected_KK[pairs].max() < 2e-6
    np.testing.assert_allclose(updates_of(vectors).cosine_distances_KK[pairs], expected_KK[pairs], rtol=1e-4)


def test_identical_updates_are_at_distance_zero():
    view = updates_of({client: random_vectors(1)[0] for client in range(4)})
    np.testing.assert_allclose(view.cosine_distances_KK, np.zeros((4, 4)), atol=1e-12)


def test_select_equals_a_fresh_view():
    vectors = random_vectors(6)
    part, fresh = updates_of(vectors).select([4, 1, 2]), updates_of({key: vectors[key] for key in (1, 2, 4)})
    assert part.clients == fresh.clients == (1, 2, 4)
    for name in ("norms_K", "euclidean_distances_KK", "manhattan_distances_KK"):
        np.testing.assert_allclose(getattr(part, name), getattr(fresh, name), rtol=1e-5)
    np.testing.assert_allclose(part.gram_KK, fresh.gram_KK, atol=1e-5 * fresh.gram_KK.max())
    np.testing.assert_allclose(part.cosine_distances_KK, fresh.cosine_distances_KK, atol=1e-5)
    assert part.mean_norm == pytest.approx(fresh.mean_norm, rel=1e-5)
    assert part.mean().tobytes() == fresh.mean().tobytes()


def test_select_skips_clients_without_an_update():
    assert updates_of({1: (1, 0), 3: (0, 1)}).select([0, 1, 2]).clients == (1,)
    assert updates_of({1: (1, 0), 3: (0, 1)}).select([0, 2]).clients == ()


def test_select_keeps_what_the_clients_chose():
    view = updates_of({1: (1, 0), 3: (0, 1)}, chosen={1: 2, 3: 0})
    assert view.select([3]).chosen[3] == 0


@pytest.mark.parametrize(("over", "distance"), [("parameters", 1.0), ("state", 0.1)])
def test_buffers_count_or_not(over, distance):
    """u = (1, 0 | 3), v = (0, 1 | 3): cos 0 over the parameters, 9 / 10 with the buffer."""
    view = updates_of(clients((1, 0, 3), (0, 1, 3)), num_buffers=1, similarity_over=over)
    assert view.cosine_distances_KK[0, 1] == pytest.approx(distance, abs=1e-6)
    assert view.norms_K == pytest.approx([1, 1] if over == "parameters" else [np.sqrt(10)] * 2)
    assert view.manhattan_distances_KK[0, 1] == pytest.approx(2)
    assert view.mean().tolist() == [0.5, 0.5, 3]


def test_similarity_over_survives_select():
    view = updates_of(clients((1, 0, 3), (0, 1, 3), (5, 5, 5)), num_buffers=1, similarity_over="state")
    assert view.select([0, 1]).cosine_distances_KK[0, 1] == pytest.approx(0.1, abs=1e-6)


@pytest.mark.usefixtures("_block")
def test_mean_cosine_distances_match_numpy():
    """To the members of two groups, from vectors that are in neither; the last 400 entries are buffers."""
    members, others = random_vectors(6), random_vectors(3, seed=1)
    first, second = ({client: members[client] for client in group} for group in ((0, 1), (2, 3, 4, 5)))
    directions = [updates_of(group, num_buffers=400).mean_direction() for group in (first, second)]
    found = updates_of(others, num_buffers=400).mean_distances(directions)
    assert found.shape == (3, 2)
    for column, group in enumerate((first, second)):
        for client, vector in others.items():
            rows = {-1: vector[:600], **{member: weights[:600] for member, weights in group.items()}}
            expected = exact_cosine_distances(rows)[0, 1:].mean()
            assert found[client, column] == pytest.approx(expected, abs=1e-5)


def test_a_mean_direction_by_hand():
    """(3, 4) / 5 and (0, 9) / 9 have mean (0.3, 0.9); zeros have no direction, buffers are not looked at."""
    view = updates_of(clients((3, 4, 7), (0, 9, 7), (0, 0, 7)), num_buffers=1)
    direction = view.mean_direction()
    assert direction.dtype == np.float32
    assert direction.tolist() == pytest.approx([0.3, 0.9, 0])
    assert view.select([2]).mean_direction().tolist() == [0, 0, 0]


def test_who_is_absent_is_known_to_every_view():
    view = updates_of(clients((1, 0), (0, 1)), absent=[5, 3])
    assert view.absent == view.select([1]).absent == {3, 5}
    assert updates_of(clients((1, 0))).absent == set()
