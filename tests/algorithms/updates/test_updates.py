"""The view of a round's updates, against float64 NumPy."""

from contextlib import nullcontext

import numpy as np
import pytest

from fedgrid.algorithms.updates import products as module
from fedgrid.algorithms.updates.products import compute_mean
from fedgrid.algorithms.updates.source import InMemorySource
from fedgrid.algorithms.updates.updates import Updates
from tests.helpers.small_cases import build_layout, build_updates, clients, frozen, rng


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


@pytest.fixture(params=[None, 64, 7, "tiles"], ids=["one block", "blocks of 64", "blocks of 7", "tiles"])
def _block(request, monkeypatch):
    if request.param == "tiles":
        in_tiles(monkeypatch)
    elif request.param:
        monkeypatch.setattr(module, "BLOCK", request.param)


def in_tiles(monkeypatch):
    """Multiply short vectors as long ones: blocks of 300 entries, in tiles of 64, the last one not full."""
    monkeypatch.setattr(module, "_has_small_kernels", lambda: True)
    for name, value in {"LONG_VECTOR": 0, "BLOCK": 300, "TILE": 64}.items():
        monkeypatch.setattr(module, name, value)


@pytest.mark.usefixtures("_block")
def test_products_norms_and_distances_match_numpy():
    vectors = random_vectors()
    view, rows_KP = build_updates(vectors), stacked(vectors)
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
    mean = build_updates(vectors, num_buffers=400).mean()
    assert mean.dtype == np.float32
    np.testing.assert_allclose(mean, stacked(vectors).mean(axis=0), rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("_block")
def test_standardised_distances_match_numpy():
    vectors = random_vectors()
    rows_KP = stacked(vectors).astype(np.float64)
    rows_KP /= np.linalg.norm(rows_KP, axis=1, keepdims=True)
    deviation_P = rows_KP.std(axis=0)
    rows_KP = rows_KP[:, deviation_P > 0] / deviation_P[deviation_P > 0]
    rows_KP /= np.linalg.norm(rows_KP, axis=1, keepdims=True)
    found_KK = build_updates(vectors).standardised_distances_KK
    np.testing.assert_allclose(found_KK, 1 - rows_KP @ rows_KP.T, atol=1e-5)
    assert np.diagonal(found_KK).tolist() == [0] * len(vectors)


def test_standardised_distances_by_hand():
    """Entries 0 and 1 are 0.6, 0.8 and 0.8, 0.6: mean 0.7, deviation 0.1; the third is 0 for both.

    Divided by 0.1 the updates are (6, 8) and (8, 6): cosine 96 / 100.
    """
    view = build_updates(clients((3, 4, 0), (8, 6, 0)))
    assert view.standardised_distances_KK == pytest.approx(np.array([[0, 0.04], [0.04, 0]]), abs=1e-6)
    alike_in_two = build_updates(clients((1, 1, 1, 1), (1, -1, 1, -1)))
    assert alike_in_two.standardised_distances_KK == pytest.approx(np.array([[0, 2], [2, 0]]), abs=1e-6)


def test_two_clients_by_hand():
    """u = (3, 4), v = (6, 0): <u, v> = 18, cos = 18 / 30 = 0.6, u - v = (-3, 4), mean (4.5, 2)."""
    view = build_updates(clients((3, 4), (6, 0)))
    assert view.gram_KK.tolist() == [[25, 18], [18, 36]]
    assert view.norms_K.tolist() == [5, 6]
    assert view.cosine_distances_KK == pytest.approx(np.array([[0, 0.4], [0.4, 0]]))
    assert view.euclidean_distances_KK.tolist() == [[0, 5], [5, 0]]
    assert view.manhattan_distances_KK.tolist() == [[0, 7], [7, 0]]
    assert view.mean().tolist() == [4.5, 2]
    assert view.mean_norm == pytest.approx(np.sqrt(4.5**2 + 2**2))


def test_clients_are_in_ascending_order_whatever_the_order_they_came_in():
    view = build_updates({7: (0, 3), 2: (1, 0), 5: (0, 2)})
    assert view.clients == (2, 5, 7)
    assert view.norms_K.tolist() == [1, 2, 3]


@pytest.mark.usefixtures("_block")
@pytest.mark.parametrize("num_clients", [1, 15, 16, 71])
def test_products_of_whole_numbers_are_exact(num_clients):
    """Differences of at most 8, 1000 entries: every sum is below 2^24, so that float32 rounds nothing."""
    rows_KP = rng(num_clients).integers(-4, 5, size=(num_clients, 1000))
    view = build_updates({client: frozen(row) for client, row in enumerate(rows_KP)})
    assert view.gram_KK.tolist() == (rows_KP @ rows_KP.T).tolist()
    assert view.products.differences_KK.tolist() == view.products.differences_KK.T.tolist()


def test_only_long_vectors_are_multiplied_in_tiles_and_only_by_the_kernels_for_it(monkeypatch):
    chosen = []
    monkeypatch.setattr(module, "LONG_VECTOR", 1000)
    for name in ("_multiply_block", "_multiply_tiles"):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, name=name, do=original: (chosen.append(name), do(*given))[1]
        )
    for has_kernels, size in ((True, 1000), (True, 999), (False, 1000)):
        monkeypatch.setattr(module, "_has_small_kernels", lambda answer=has_kernels: answer)
        assert build_updates(random_vectors(2, size)).products.common > 0
    assert chosen == ["_multiply_tiles", "_multiply_block", "_multiply_block"]


def test_tiles_are_of_the_same_bits_wherever_the_updates_lie_in_memory(monkeypatch):
    in_tiles(monkeypatch)
    vectors, moved = random_vectors(17), {}
    for client, vector in vectors.items():
        moved[client] = np.empty(1016, np.float32)[client % 13 :][:1000]
        moved[client][:] = vector
    assert build_updates(moved).gram_KK.tobytes() == build_updates(vectors).gram_KK.tobytes()


@pytest.mark.parametrize("tiled", [False, True], ids=["blocks", "tiles"])
def test_the_number_of_threads_changes_no_bit(tiled, monkeypatch):
    if tiled:
        in_tiles(monkeypatch)
    monkeypatch.setattr(module, "BLOCK", 7)
    one, two = (build_updates(random_vectors(), threads=threads) for threads in (1, 2))
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
    view = build_updates(clients((0, 0), (1, 2), (2, 1), (0, 0)))
    assert view.cosine_distances_KK[0].tolist() == view.cosine_distances_KK[3, ::-1].tolist() == [0, 1, 1, 1]
    assert view.cosine_distances_KK[1, 2] == pytest.approx(0.2)
    assert view.standardised_distances_KK[0].tolist() == [0, 1, 1, 1]


def test_cosine_distances_lie_between_zero_and_two():
    distances_KK = build_updates(clients((1, 1), (-2, -2), (3, 3))).cosine_distances_KK
    np.testing.assert_allclose(distances_KK, [[0, 2, 0], [2, 0, 2], [0, 2, 0]], atol=1e-6)
    assert distances_KK.min() >= 0
    assert distances_KK.max() <= 2


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
    np.testing.assert_allclose(
        build_updates(vectors).cosine_distances_KK[pairs], expected_KK[pairs], rtol=1e-4
    )


def test_select_equals_a_fresh_view():
    vectors = random_vectors(6)
    part, fresh = (
        build_updates(vectors).select([4, 1, 2]),
        build_updates({key: vectors[key] for key in (1, 2, 4)}),
    )
    assert part.clients == fresh.clients == (1, 2, 4)
    for name in ("norms_K", "euclidean_distances_KK", "manhattan_distances_KK"):
        np.testing.assert_allclose(getattr(part, name), getattr(fresh, name), rtol=1e-5)
    np.testing.assert_allclose(part.gram_KK, fresh.gram_KK, atol=1e-5 * fresh.gram_KK.max())
    np.testing.assert_allclose(part.cosine_distances_KK, fresh.cosine_distances_KK, atol=1e-5)
    assert part.mean_norm == pytest.approx(fresh.mean_norm, rel=1e-5)
    assert part.mean().tobytes() == fresh.mean().tobytes()


def test_select_keeps_choices_and_absent_clients_and_skips_those_without_an_update():
    view = build_updates({1: (1, 0), 3: (0, 1)}, chosen={1: 2, 3: 0}, absent=[5, 4])
    part = view.select([0, 2, 3])
    assert (part.clients, part.chosen[3]) == ((3,), 0)
    assert part.absent == view.absent == {4, 5}
    assert view.select([0, 2]).clients == ()


@pytest.mark.parametrize(("over", "distance"), [("parameters", 1.0), ("state", 0.1)])
def test_buffers_count_or_not(over, distance):
    """u = (1, 0 | 3), v = (0, 1 | 3): cos 0 over the parameters, 9 / 10 with the buffer."""
    view = build_updates(clients((1, 0, 3), (0, 1, 3)), num_buffers=1, similarity_over=over)
    assert view.select([0, 1]).cosine_distances_KK[0, 1] == pytest.approx(distance, abs=1e-6)
    assert view.cosine_distances_KK[0, 1] == pytest.approx(distance, abs=1e-6)
    assert view.norms_K == pytest.approx([1, 1] if over == "parameters" else [np.sqrt(10)] * 2)
    assert view.manhattan_distances_KK[0, 1] == pytest.approx(2)
    assert view.mean().tolist() == [0.5, 0.5, 3]


@pytest.mark.usefixtures("_block")
def test_mean_cosine_distances_match_numpy():
    """To the members of two groups, from vectors that are in neither; the last 400 entries are buffers."""
    members, others = random_vectors(6), random_vectors(3, seed=1)
    first, second = ({client: members[client] for client in group} for group in ((0, 1), (2, 3, 4, 5)))
    directions = [build_updates(group, num_buffers=400).mean_direction() for group in (first, second)]
    found = build_updates(others, num_buffers=400).mean_distances(directions)
    assert found.shape == (3, 2)
    for column, group in enumerate((first, second)):
        for client, vector in others.items():
            rows = {-1: vector[:600], **{member: weights[:600] for member, weights in group.items()}}
            expected = exact_cosine_distances(rows)[0, 1:].mean()
            assert found[client, column] == pytest.approx(expected, abs=1e-5)


def test_a_mean_direction_by_hand():
    """(3, 4) / 5 and (0, 9) / 9 have mean (0.3, 0.9); zeros have no direction, buffers are not looked at."""
    view = build_updates(clients((3, 4, 7), (0, 9, 7), (0, 0, 7)), num_buffers=1)
    direction = view.mean_direction()
    assert direction.dtype == np.float32
    assert direction.tolist() == pytest.approx([0.3, 0.9, 0])
    assert view.select([2]).mean_direction().tolist() == [0, 0, 0]


class Recorded(InMemorySource):
    """A source that caches statistics, and notes what it is asked for."""

    def __init__(self, vectors, known=None, outputs=None):
        super().__init__(vectors, outputs)
        self.known = {} if known is None else known
        self.fetched, self.looked_up, self.computed, self.inputs = [], [], [], {}

    def fetch(self, clients, output="update"):
        self.fetched.append(list(clients) if output == "update" else (output, list(clients)))
        return super().fetch(clients, output)

    def cached(self, wanted, compute):
        self.looked_up.append(list(wanted))
        self.inputs.update({name: sorted(clients) for name, clients in wanted.items()})
        missing = [name for name in wanted if name not in self.known]
        if missing:
            self.computed.append(missing)
            made = [
                {key: frozen(array, array.dtype) for key, array in arrays.items()}
                for arrays in compute(missing)
            ]
            self.known.update(zip(missing, made, strict=True))
        return [self.known[name] for name in wanted]


def view_of(source, clients, num_buffers=0, **options):
    """Return the view of a source's updates of 1000 entries."""
    return Updates(source, build_layout(1000 - num_buffers, num_buffers), clients=clients, **options)


def recorded(num_clients=5, known=None, **options):
    source = Recorded(random_vectors(num_clients), known)
    return source, view_of(source, range(num_clients), **options)


LOOKS = {
    "gram": lambda view: view.gram_KK,
    "norms": lambda view: view.norms_K,
    "cosines": lambda view: view.cosine_distances_KK,
    "euclidean": lambda view: view.euclidean_distances_KK,
    "manhattan": lambda view: view.manhattan_distances_KK,
    "mean": lambda view: view.mean(),
    "means": lambda view: np.stack(view.means([[3, 1], [2]])),
    "direction": lambda view: view.mean_direction(),
    "vectors": lambda view: np.stack(view.vectors()),
    "of a part": lambda view: view.select([1, 3]).euclidean_distances_KK,
    "manhattan of a part": lambda view: view.select([1, 3]).manhattan_distances_KK,
    "mean of a part": lambda view: view.select([1, 3]).mean(),
}


ON_UPDATES = [LOOKS[name] for name in ("direction", "vectors")]
"""What is of the updates themselves, and is not cached."""


class TestSource:
    """Updates that are elsewhere: looked at only for what is not known of them already."""

    def test_a_view_alone_asks_for_nothing(self):
        source, view = recorded()
        assert view.clients == (0, 1, 2, 3, 4)
        assert view.groups(np.array([0, 0, 1, 1, 1])) == {0: [0, 1], 1: [2, 3, 4]}
        assert (source.fetched, source.looked_up) == ([], [])

    @pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
    @pytest.mark.parametrize("over", ["parameters", "state"])
    def test_the_bits_are_those_of_updates_in_memory(self, look, over):
        known = {}
        vectors = random_vectors()
        expected = look(build_updates(vectors, num_buffers=400, similarity_over=over))
        for _ in ("worked out", "known"):
            source = Recorded(vectors, known)
            found = look(view_of(source, range(5), num_buffers=400, similarity_over=over))
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert found.tobytes() == expected.tobytes()
        assert source.fetched == [] or look in ON_UPDATES

    def test_all_distances_but_one_come_of_the_same_products(self):
        source, view = recorded()
        for what in ("gram", "norms", "cosines", "euclidean"):
            LOOKS[what](view)
        assert len(source.looked_up) == 1
        LOOKS["manhattan"](view)
        LOOKS["manhattan"](view)
        assert len(source.looked_up) == 2
        assert len(source.known) == 2
        assert source.fetched == [[0, 1, 2, 3, 4]]

    def test_the_updates_themselves_are_fetched_once(self):
        source, view = recorded(3)
        view.vectors()
        view.vectors()
        view.mean_direction()
        assert source.fetched == [[0, 1, 2]]


class TestMeansOfASource:
    def test_only_the_clients_of_means_that_are_not_known_are_fetched_once(self):
        first, view = recorded()
        view.means([[0, 1]])
        assert first.fetched == [[0, 1]]
        second, view = recorded(known=first.known)
        view.means([[3, 2], [0, 1], [2, 0]])
        assert second.fetched == [[0, 2, 3]]
        assert len(second.computed[0]) == 2

    def test_each_is_where_its_group_is(self):
        vectors = {client: frozen([client, 10 * client]) for client in range(4)}
        known = {}
        for groups in ([[3]], [[0, 2], [3], [1]], [[1], [0, 2]]):
            view = Updates(Recorded(vectors, known), build_layout(2), clients=range(4))
            expected = [np.mean([vectors[client] for client in group], axis=0).tolist() for group in groups]
            assert [mean.tolist() for mean in view.means(groups)] == expected

    def test_every_group_has_a_name_of_its_own(self):
        source, view = recorded(13)
        groups = [[0], [1], [12], [1, 2], [0, 1], [0, 1, 2], [11, 2], [*range(13)]]
        view.means(groups)
        view.select([0, 1, 2]).mean()
        view.mean()
        assert len([name for name in source.known if name.startswith("mean-")]) == len(groups)


class TestWeightedMeans:
    @pytest.mark.parametrize("num_rows", [1, 2, 7, 8, 30])
    def test_sums_have_the_bits_of_numpys_means(self, num_rows):
        rng = np.random.default_rng(num_rows)
        rows = [rng.standard_normal(50).astype(np.float32) for _ in range(num_rows)]
        shares = tuple(rng.random(num_rows).tolist())
        assert compute_mean(rows, None).tobytes() == np.mean(rows, axis=0, dtype=np.float64).tobytes()
        weighted = np.average(np.array(rows, np.float64), axis=0, weights=shares)
        assert compute_mean(rows, shares).tobytes() == weighted.tobytes()

    def test_a_view_and_its_parts_take_means_by_the_weights_of_the_run(self):
        view = build_updates(clients((3, 0), (7, 4), (5, 5)), weights={0: 1, 1: 3, 2: 10})
        assert [mean.tolist() for mean in view.means([[0, 1], [2]])] == [[6, 3], [5, 5]]
        part = view.select([0, 1])
        assert part.mean().tolist() == [6, 3]
        assert part.mean({0: 1, 1: 1}).tolist() == [5, 2]
        assert part.mean_norm == pytest.approx(np.hypot(6, 3))
        assert build_updates(clients((3, 0), (7, 4))).mean_norm == pytest.approx(np.hypot(5, 2))

    def test_each_set_of_weights_is_cached_for_itself(self):
        source, view = recorded(3)
        first = view.mean({0: 1, 1: 2, 2: 3})
        assert view.mean({2: 3.0, 0: 1.0, 1: 2.0, 9: 7}).tobytes() == first.tobytes()
        assert len(source.computed) == 1
        assert view.mean({0: 3, 1: 2, 2: 1}).tobytes() != first.tobytes()
        assert len(source.computed) == 2
        assert view.mean({0: 0.3, 1: 0.3, 2: 0.3}).tobytes() == view.mean().tobytes()
        assert len(source.computed) == 3, "equal weights are the plain mean"

    def test_weights_are_divided_by_their_sum_within_each_group(self):
        """(1 x 3 + 3 x 7) / 4 = 6 in the first group; a group of one is its update."""
        view = build_updates(clients((3, 0), (7, 4), (5, 5)))
        means = view.means([[0, 1], [2]], weights={0: 1, 1: 3, 2: 10})
        assert [mean.tolist() for mean in means] == [[6, 3], [5, 5]]
        assert means[0].dtype == np.float32


class TestOutputs:
    """Named arrays that replies carry beside the update; of any length."""

    def view(self, known=None):
        outputs = {"variate": {client: frozen([client, 2, 3]) for client in range(3)}}
        source = Recorded(random_vectors(3), known, outputs)
        return source, view_of(source, range(3))

    def test_are_returned_in_the_order_of_the_clients(self):
        _, view = self.view()
        assert [array.tolist() for array in view.outputs("variate")] == [[0, 2, 3], [1, 2, 3], [2, 2, 3]]
        assert [array.tolist() for array in view.select([2, 0]).outputs("variate")] == [[0, 2, 3], [2, 2, 3]]

    def test_their_means_are_cached_apart_from_those_of_updates(self):
        first, view = self.view()
        view.means([[0, 1, 2]], output="variate")
        view.mean()
        assert len(first.known) == 2
        second, view = self.view(first.known)
        assert view.means([[0, 1, 2]], output="variate")[0].tolist() == [1, 2, 3]
        assert second.fetched == []
        [weighted] = view.means([[0, 2]], weights={0: 1, 2: 3}, output="variate")
        assert weighted.tolist() == [1.5, 2, 3]


class TestNames:
    """What is known is found again by the clients and by the entries that count."""

    def names(self, num_buffers, over):
        source = Recorded(random_vectors(5))
        view = view_of(source, (0, 1, 2), num_buffers=num_buffers, similarity_over=over)
        _ = view.gram_KK, view.manhattan_distances_KK, view.mean()
        products, manhattan, mean = (name for (name,) in source.looked_up)
        return products, manhattan, mean

    def test_what_similarity_is_over_matters_only_with_buffers(self):
        assert self.names(0, "parameters") == self.names(0, "state")
        parameters, state = self.names(400, "parameters"), self.names(400, "state")
        assert parameters[0] != state[0]
        assert parameters[1] != state[1]
        assert parameters[2] == state[2], "means are over the whole state"

    def test_they_are_the_same_in_every_process(self):
        """And in every version: entries under a name that changes are misses.

        SHA-256 of `((0, 1, 2),)`, and of `('update', (0, 1, 2), None)` for the mean without weights.
        """
        assert self.names(400, "parameters") == (
            "products-parameters-91dc352bb99129da",
            "manhattan-parameters-91dc352bb99129da",
            "mean-511fa1571bc85ff8",
        )


class TestPartsOfASource:
    def test_a_part_shares_the_products_of_the_whole(self):
        source, view = recorded()
        part = view.select([1, 3])
        deeper = part.select([3])
        expected = view.gram_KK[np.ix_([1, 3], [1, 3])]
        assert part.gram_KK.tobytes() == expected.tobytes()
        assert deeper.gram_KK.tolist() == [[expected[1, 1]]]
        assert part.cosine_distances_KK.shape == (2, 2)
        assert len(source.looked_up) == len(source.fetched) == 1


class TestGroups:
    def test_clusters_have_those_of_their_clients_that_have_an_update(self):
        """In ascending order, without empty ones."""
        view = build_updates({1: (1, 0), 2: (0, 1), 4: (1, 1)})
        groups = view.groups(np.array([0, 2, 0, 2, 2]))
        assert list(groups.items()) == [(0, [2]), (2, [1, 4])]
        assert view.select([1]).groups(np.array([0, 2, 0, 2, 2])) == {2: [1]}


def of_two_groups(noise, size=1000, factor=1.0):
    """Return updates of four clients each of two groups, which differ by `noise`; the last is longer.

    The groups are nearly opposite, so that float32 products err by more than updates of one group differ.
    """
    first, other = rng(1).normal(size=(2, size))
    rows = [first] * 4 + [0.1 * other - first] * 4
    noisy = [row * (1 + noise * rng(2 + client).normal(size=size)) for client, row in enumerate(rows)]
    return clients(*noisy[:-1], noisy[-1] * factor)


DISTANCES = (
    "cosine_distances_KK",
    "euclidean_distances_KK",
    "standardised_distances_KK",
    "manhattan_distances_KK",
)


@pytest.mark.usefixtures("_block")
@pytest.mark.parametrize("measure", DISTANCES)
@pytest.mark.parametrize("noise", [0.0, 1e-5])
def test_updates_that_differ_by_rounding_are_one(measure, noise):
    """Clients with the same rows in another order: their cosine distances are 1e-10 at most."""
    distances_KK = getattr(build_updates(of_two_groups(noise)), measure)
    assert not distances_KK[:4, :4].any()
    assert not distances_KK[4:, 4:].any()
    assert len(np.unique(distances_KK, axis=0)) == 2
    assert distances_KK[:4, 4:].min() > 0.5


def test_an_update_that_is_only_longer_has_the_same_direction():
    view = build_updates(of_two_groups(1e-7, factor=10.0))
    assert not view.cosine_distances_KK[4:, 4:].any()
    assert not view.standardised_distances_KK[4:, 4:].any()
    assert view.euclidean_distances_KK[6, 7] == pytest.approx(9 * view.norms_K[6], rel=1e-4)


def test_of_models_far_smaller_differences_count():
    """Two models of norm 31 that differ by 3e-3 are two, if they are not taken for updates."""
    rows = rng().normal(size=1000) * (1 + 1e-4 * rng(1).normal(size=(2, 1000)))
    assert not build_updates(clients(*rows)).euclidean_distances_KK.any()
    apart = build_updates(clients(*rows), least=module.MODEL_PRECISION).euclidean_distances_KK[0, 1]
    assert apart == pytest.approx(np.linalg.norm(rows[0] - rows[1]), rel=1e-3)


def test_own_code_computes_each_statistic_in_a_block_of_its_own():
    """What it draws from the process' generators must not depend on which other statistics are cached."""
    entered = []

    def around(compute, name):
        entered.append((compute, name))
        return nullcontext()

    def first(rows, shares, threads):
        return rows[0]

    updates = build_updates({0: (1, 0), 1: (2, 1)}, around=around)
    assert [vector.tolist() for vector in updates.combine([[0], [1], [0, 1]], first, "first")] == [
        [1, 0],
        [2, 1],
        [1, 0],
    ]
    names = [name for compute, name in entered if compute is first]
    assert len(set(names)) == len(names) == 3


def test_standardised_distances_do_not_depend_on_an_entrys_unit():
    """The third entry, a thousand times as large in the second view, would be all that cosines see.

    The lengths are 1 and the same in all rows, so that only the entry's unit differs.
    """
    rows = np.random.default_rng(0).choice([-1.0, 1.0], (5, 40))
    scales = np.ones(40)
    scales[2] = 1000.0
    first, second = (
        build_updates(clients(*map(tuple, rows * scale))).standardised_distances_KK for scale in (1.0, scales)
    )
    np.testing.assert_allclose(first, second, atol=1e-5)


def test_updates_that_differ_by_more_than_rounding_keep_their_distances():
    """Noise of 1e-3: cosine distances within a group are about 1e-6, as where BatchNorm's counters rule."""
    vectors = of_two_groups(1e-3)
    found_KK = build_updates({client: vectors[client] for client in range(4)}).cosine_distances_KK
    exact_KK = exact_cosine_distances({client: frozen(vectors[client]) for client in range(4)})
    assert exact_KK[0, 1] == pytest.approx(1e-6, rel=0.1)
    np.testing.assert_allclose(found_KK, exact_KK, atol=1e-8)
