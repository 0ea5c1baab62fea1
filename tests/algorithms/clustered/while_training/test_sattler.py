"""Sattler's clustered federated learning: bipartitions of clusters that have stopped moving together."""

import numpy as np
import pytest

from fedgrid.algorithms.contract.split import split
from fedgrid.algorithms.registry import create_algorithm
from fedgrid.engine.runtime.configuration.complete import complete_config
from tests.helpers import small_runs
from tests.helpers.small_cases import clients, group_labels, partition, play, read_model, sets, start, step

OPPOSED = clients((2, 0), (2, 0), (-2, 0), (-2, 0))
"""Mean 0 < 0.35, norms 2 > 1, four clients: a cluster that splits."""
ABSOLUTE = {"epsilon_1": 0.35, "epsilon_2": 1.0, "cooldown": 20}
"""Table 4 for MNIST, but for its cooldown."""
SPLIT = sets([0, 1], [2, 3])
WHOLE = sets([0, 1, 2, 3])


def take(vectors, num_clients=4, round_index=20, name="sattler", **settings):
    """Take one step from a single cluster; what is not given of the plain settings is `ABSOLUTE`."""
    algorithm = create_algorithm(name, (ABSOLUTE if name == "sattler" else {}) | settings)
    return step(algorithm, start(algorithm, num_clients), round_index, vectors)


def scaled(vectors, factor):
    return {client: factor * np.asarray(vector) for client, vector in vectors.items()}


def shifted(vectors, by):
    return {client: np.asarray(vector) + by for client, vector in vectors.items()}


def unit(*degrees, norm=1.0):
    return clients(
        *[(norm * np.cos(np.radians(angle)), norm * np.sin(np.radians(angle))) for angle in degrees]
    )


def test_a_cluster_at_a_standstill_splits_and_each_child_takes_its_own_mean():
    state, diagnostics = take(OPPOSED)
    assert partition(state) == SPLIT
    assert [model.tolist() for model in state.models] == [[2, 0], [-2, 0]]
    assert diagnostics.clustered
    assert diagnostics.mean_norm == pytest.approx(0, abs=1e-6)
    assert diagnostics.max_norm == pytest.approx(2)


def test_no_split_while_the_mean_still_moves():
    """Shifted by (1, 0) the mean has norm 1 >= 0.35; nothing else changes sides."""
    state, diagnostics = take(shifted(OPPOSED, (1, 0)))
    assert partition(state) == WHOLE
    assert state.models[0].tolist() == [1, 0]
    assert not diagnostics.clustered
    assert diagnostics.mean_norm == pytest.approx(1)
    assert diagnostics.max_norm == pytest.approx(3)


@pytest.mark.parametrize(("epsilon_1", "expected"), [(0.5, WHOLE), (0.51, SPLIT)])
def test_the_norm_of_the_mean_must_lie_below_epsilon_1(epsilon_1, expected):
    """Shifted by (0.5, 0) the mean is exactly 0.5."""
    assert partition(take(shifted(OPPOSED, (0.5, 0)), epsilon_1=epsilon_1)[0]) == expected


@pytest.mark.parametrize(("epsilon_2", "expected"), [(2.0, WHOLE), (1.99, SPLIT)])
def test_the_largest_norm_must_exceed_epsilon_2(epsilon_2, expected):
    assert partition(take(OPPOSED, epsilon_2=epsilon_2)[0]) == expected


@pytest.mark.parametrize(
    ("name", "last_without"), [("sattler", 19), ("sattler-as-published", 20)], ids=["right", "as published"]
)
def test_cluster_does_not_split_again_within_the_cooldown(name, last_without):
    """Cooldown 20: possible from round 20 on (counted from 0); the published code waits one round more."""
    settings = {"name": name, "epsilon_1": 0.35, "epsilon_2": 1.0, "cooldown": 20}
    assert partition(take(OPPOSED, round_index=last_without, **settings)[0]) == WHOLE
    assert partition(take(OPPOSED, round_index=last_without + 1, **settings)[0]) == SPLIT


def test_only_usable_members_count():
    """Three members, of which two have an update: no split."""
    assert partition(take({0: (2, 0), 2: (-2, 0)}, 3)[0]) == sets([0, 1, 2])


def test_members_without_an_update_join_the_larger_child():
    """Client 2 of five is missing: {0} and {1, 3, 4} part."""
    vectors = {0: (3, 0), 1: (-1, 0), 3: (-1, 0), 4: (-1, 0)}
    state, _ = take(vectors, 5)
    assert partition(state) == sets([0], [1, 2, 3, 4])
    assert read_model(state, 2) == [-1, 0]


@pytest.mark.parametrize("name", ["sattler", "sattler-as-published"])
def test_a_later_cluster_splits_into_its_own_ids(name):
    """Cluster {5, ..., 9} splits into {5, 7} and {6, 8, 9}, not into positions 0 to 4 of its own matrix.

    Its mean is (3 - 2 + 3 - 2 - 2) / 5 = 0; cluster {0, ..., 4} moves on together by (1, 0).
    """
    algorithm = create_algorithm(name, {"epsilon_1": 0.35, "epsilon_2": 1.0})
    before = split(start(algorithm, 10), 0, [range(5), range(5, 10)])
    vectors = clients(*[(1, 0)] * 5) | clients((3, 0), (-2, 0), (3, 0), (-2, 0), (-2, 0), first=5)
    state, diagnostics = step(algorithm, before, 30, vectors)
    assert partition(state) == sets(range(5), [5, 7], [6, 8, 9])
    assert read_model(state, 0) == [1, 0]
    assert read_model(state, 5) == [3, 0]
    assert read_model(state, 6) == [-2, 0]
    assert diagnostics.mean_norm == pytest.approx(1)
    assert diagnostics.max_norm == pytest.approx(3)


def test_several_clusters_may_split_in_one_round():
    algorithm = create_algorithm("sattler", ABSOLUTE)
    before = split(start(algorithm, 8), 0, [[0, 2, 4, 6], [1, 3, 5, 7]])
    vectors = {0: (2, 0), 2: (2, 0), 4: (-2, 0), 6: (-2, 0), 1: (0, 2), 3: (0, -2), 5: (0, 2), 7: (0, -2)}
    state, _ = step(algorithm, before, 20, vectors)
    assert partition(state) == sets([0, 2], [4, 6], [1, 5], [3, 7])
    assert [read_model(state, client) for client in (0, 4, 1, 3)] == [[2, 0], [-2, 0], [0, 2], [0, -2]]


def test_a_cluster_splits_into_two_at_most_in_a_round():
    """Three directions 120 degrees apart: two of them stay together until the next round."""
    directions = unit(0, 0.1, 115, 115.1, 240, 240.1, norm=2)
    state, _ = take(directions, 6)
    assert partition(state) == sets([0, 1, 2, 3], [4, 5])


CHAIN = {"epsilon_1": 1.9, "epsilon_2": 1.95}
"""Directions 0, 38, 80, 130 degrees of norm 2: the mean has norm 1.35 < 1.9."""


def test_single_linkage_cuts_the_widest_gap():
    """Gaps 38, 42, 50: the bipartition with the least similarity across is {0, 38, 80} and {130}."""
    state, _ = take(unit(0, 38, 80, 130, norm=2), linkage="single", **CHAIN)
    assert partition(state) == sets([0, 1, 2], [3])


def test_complete_linkage_keeps_the_children_compact():
    """0 and 38 merge; then 80 and 130 (50 degrees apart) before {0, 38} and 80 (80 degrees apart)."""
    state, _ = take(unit(0, 38, 80, 130, norm=2), linkage="complete", **CHAIN)
    assert partition(state) == sets([0, 1], [2, 3])


@pytest.mark.parametrize("linkage", ["single", "complete"])
@pytest.mark.parametrize(("gamma_max", "expected"), [(0.70, SPLIT), (0.71, WHOLE)])
def test_the_gamma_test_looks_at_the_most_similar_pair_across(linkage, gamma_max, expected):
    """0, 20 against 110, 130 degrees: 20 and 110 are at right angles, the other pairs farther apart."""
    vectors = unit(0, 20, 110, 130, norm=2)
    state, _ = take(vectors, linkage=linkage, gamma_max=gamma_max, epsilon_1=1.5, epsilon_2=1.9)
    assert partition(state) == expected


def test_norms_leave_the_buffers_out():
    """A counter of 3 a client would lift the mean's norm to 3."""
    algorithm = create_algorithm("sattler", ABSOLUTE)
    vectors = {client: (*vector, 3) for client, vector in OPPOSED.items()}
    state, _ = step(algorithm, start(algorithm, 4, (0, 0, 0)), 20, vectors, num_buffers=1)
    assert partition(state) == SPLIT
    assert [model.tolist() for model in state.models] == [[2, 0, 3], [-2, 0, 3]]


def test_published_norms_count_the_buffers():
    """Hence no split on models with BatchNorm: the mean's norm is 3 > 0.35."""
    algorithm = create_algorithm("sattler-as-published", {})
    vectors = {client: (*vector, 3) for client, vector in OPPOSED.items()}
    state, _ = step(algorithm, start(algorithm, 4, (0, 0, 0)), 30, vectors, num_buffers=1)
    assert partition(state) == WHOLE


class TestRelativeEpsilons:
    """The default: epsilons from the run's own norms. All settings not named are the defaults."""

    @staticmethod
    def play(*rounds, cooldown=0, num_clients=4, **settings):
        """Return the partition after each of these rounds of updates."""
        algorithm = create_algorithm("sattler", {"cooldown": cooldown, **settings})
        return [partition(state) for state, _ in play(algorithm, rounds, num_clients)]

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_split_does_not_depend_on_the_size_of_the_updates(self, scale):
        """As epsilons in absolute numbers do: those of one model are never met, or always, by another."""
        assert self.play(scaled(OPPOSED, scale)) == [SPLIT]
        assert self.play(scaled(shifted(OPPOSED, (2, 0)), scale)) == [WHOLE]

    @pytest.mark.parametrize(("shift", "expected"), [(1.15, SPLIT), (1.16, WHOLE)])
    def test_mean_must_be_below_half_of_the_members_median_norm(self, shift, expected):
        """Shifted by s at right angles: mean s, norms sqrt(4 + s^2), twice s at s = sqrt(4 / 3) = 1.1547."""
        assert self.play(shifted(OPPOSED, (0, shift))) == [expected]

    @pytest.mark.parametrize(("share", "expected"), [(0.76, sets([0, 2, 3], [1])), (0.75, WHOLE)])
    def test_share_of_the_members_norms_is_a_setting(self, share, expected):
        """4, -2, 2, 2: the mean is 1.5, the median norm 2, the ratio 0.75."""
        vectors = clients((4, 0), (-2, 0), (2, 0), (2, 0))
        assert self.play(vectors, epsilon_1_share=share) == [expected]

    def test_one_very_long_update_does_not_split_a_cluster(self):
        """-1, -1, -1, 5: mean 0.5, half of the median norm, but a fifth of the root mean square, 2.65."""
        assert self.play(clients((-1, 0), (-1, 0), (-1, 0), (5, 0))) == [WHOLE]

    @pytest.mark.parametrize(("norm", "expected"), [(0.41, SPLIT), (0.39, WHOLE)])
    def test_longest_update_must_exceed_a_fifth_of_the_longest_so_far(self, norm, expected):
        """Round 1: four equal updates of norm 2, no split. Round 2: opposed ones of this norm."""
        equal = clients(*[(2, 0)] * 4)
        assert self.play(equal, scaled(OPPOSED, norm / 2)) == [WHOLE, expected]

    def test_longest_so_far_is_of_all_clusters_and_of_rounds_within_the_cooldown(self):
        """Cluster {4, 5} once sent norms of 20; so 4 is too short for {0, ..., 3} ever after, 6 is not."""
        algorithm = create_algorithm("sattler", {"cooldown": 1})
        before = split(start(algorithm, 6), 0, [range(4), [4, 5]])
        still = dict.fromkeys(range(4), (0, 0))
        state, _ = step(algorithm, before, 0, still | clients((20, 0), (20, 0), first=4))
        assert state.arrays["longest_update"].tolist() == [20]
        for factor, expected in ((2, 2), (3, 3)):
            vectors = scaled(OPPOSED, factor) | clients((1, 0), (1, 0), first=4)
            after, _ = step(algorithm, state, 1, vectors)
            assert len(after.models) == expected

    def test_default_cooldown_is_three_rounds(self):
        algorithm = create_algorithm("sattler", {})
        assert [partition(state) for state, _ in play(algorithm, [OPPOSED] * 4, 4)] == [WHOLE] * 3 + [SPLIT]

    def test_one_epsilon_may_be_absolute(self):
        """epsilon_1 = 0 is never undercut, so nothing splits; norms of 2 do not exceed epsilon_2 = 2."""
        assert self.play(OPPOSED, epsilon_1=0) == [WHOLE]
        assert self.play(OPPOSED, epsilon_2=2) == [WHOLE]
        assert self.play(OPPOSED, epsilon_2=1.9) == [SPLIT]

    @pytest.mark.parametrize("epsilon", ["epsilon_1", "epsilon_2"])
    def test_published_variant_takes_absolute_epsilons_only(self, epsilon):
        with pytest.raises(ValueError, match=epsilon):
            create_algorithm("sattler-as-published", {epsilon: None})
        with pytest.raises(ValueError, match=f"{epsilon}_share = 0.3 has no effect"):
            create_algorithm("sattler-as-published", {f"{epsilon}_share": 0.3})


def test_no_split_when_the_clients_are_at_a_standstill_too():
    """A quarter of the size: mean 0, norms 0.5 <= 1."""
    assert partition(take(scaled(OPPOSED, 0.25))[0]) == WHOLE


def test_one_large_update_is_enough_for_epsilon_2():
    """Norms 1.5, 0.5, 0.5, 0.5; the mean of 1.5, -0.5, -0.5, -0.5 is 0."""
    vectors = clients((1.5, 0), (-0.5, 0), (-0.5, 0), (-0.5, 0))
    assert partition(take(vectors)[0]) == sets([0], [1, 2, 3])


def test_three_members_may_leave_one_alone():
    """(2, 0) against (-1, 0.1) and (-1, -0.1): mean 0, largest norm 2."""
    assert partition(take(clients((2, 0), (-1, 0.1), (-1, -0.1)), 3)[0]) == sets([0], [1, 2])


def test_the_published_split_is_by_complete_linkage():
    state, _ = take(unit(0, 38, 80, 130, norm=2), name="sattler-as-published", round_index=21, **CHAIN)
    assert partition(state) == sets([0, 1], [2, 3])


@pytest.mark.parametrize("linkage", ["single", "complete"])
@pytest.mark.parametrize(("gamma_max", "expected"), [(0.70, SPLIT), (0.71, WHOLE)])
def test_gamma_test_by_hand(linkage, gamma_max, expected):
    """Children at right angles: alpha across is 0, so gamma_max must lie below sqrt(1 / 2) = 0.7071.

    The mean (1, 1) has norm 1.414 < 1.5.
    """
    vectors = clients((2, 0), (2, 0), (0, 2), (0, 2))
    state, _ = take(vectors, linkage=linkage, gamma_max=gamma_max, epsilon_1=1.5, epsilon_2=1.9)
    assert partition(state) == expected


def test_identical_updates_are_never_split():
    """Even where the norms would allow it: sqrt((1 - 1) / 2) = 0 is not above gamma_max = 0."""
    vectors = clients(*[(2, 0)] * 4)
    assert partition(take(vectors, epsilon_1=3.0, epsilon_2=1.0)[0]) == WHOLE


def test_the_published_defaults_are_what_the_authors_ran():
    settings = create_algorithm("sattler-as-published", {}).settings
    assert (settings.epsilon_1, settings.epsilon_2, settings.cooldown) == (0.35, 0.35, 20)
    assert (settings.linkage, settings.similarity_over) == ("complete", "state")


def test_swapped_labels_of_digits_are_found_once_one_model_for_all_has_settled(tmp_path):
    """Clients 1 and 3 exchange the labels 2 and 3, clients 0 and 2 the labels 0 and 1."""
    run = complete_config(
        {
            "clients": 4,
            "algorithm": "sattler",
            "training": {"rounds": 8, "local_epochs": 3, "learning_rate": 0.3},
            "evaluation": {"every": 8},
            "split": {"kind": "swapped", "num_clusters": 2, "server_images": 50},
        },
        small_runs.NOWHERE,
    )
    small_runs.play(run, tmp_path)
    records = small_runs.rows(run, tmp_path, "clients")
    found = {at: group_labels([row["cluster"] for row in records if row["round"] == at]) for at in (1, 8)}
    assert found == {1: WHOLE, 8: sets((0, 2), (1, 3))}
