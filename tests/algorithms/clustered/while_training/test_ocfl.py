"""OCFL: one clustering, in the round of the first rise of the temperature, before its aggregation.

With two clients at cosine distance d the temperature is d / 2: it is 0 for (1, 0), (1, 0); 0.2 for
(5, 0), (3, 4) (cosine 0.6); 0.5 for (1, 0), (0, 1); and 1 for (1, 0), (-1, 0).
"""

import pytest

from fedgrid.algorithms.clustered.while_training.ocfl import Ocfl, OcflSettings
from fedgrid.algorithms.clustering.clusterers import HDBSCANAsPublished, KMeans
from fedgrid.algorithms.registry import create_algorithm
from tests.helpers.small_cases import (
    clients,
    partition,
    play,
    read_model,
    rounds_clustered,
    sets,
    start,
    step,
)

SAME = clients(*[(1, 0)] * 4)


NOISY = clients((1, 0), (2, 0), (0, 1), (1, 3))


COLD = clients((1, 0), (1, 0))
COOL = clients((5, 0), (3, 4))
WARM = clients((1, 0), (0, 1))
HOT = clients((1, 0), (-1, 0))


def ocfl(**overrides):
    return create_algorithm("ocfl-kmeans", overrides)


def test_first_round_never_clusters(answers):
    asked = answers()
    history = play(ocfl(), [HOT], 2)
    assert asked == []
    assert partition(history[0][0]) == sets([0, 1])


def test_clusters_in_the_round_of_the_first_rise_and_never_again(answers):
    """Temperatures 0.5, 0.2, 0.2 (equal is no rise), 0.5 (a rise, round 3), 0.2, 1 (a rise too late)."""
    asked = answers([0, 1])
    history = play(ocfl(), [WARM, COOL, COOL, WARM, COOL, HOT], 2)
    assert rounds_clustered(history) == [3]
    assert len(asked) == 1
    assert partition(history[2][0]) == sets([0, 1])
    assert all(partition(state) == sets([0], [1]) for state, _ in history[3:])


def test_round_of_the_rise_is_aggregated_in_the_new_clusters(answers):
    """Three clients. Round 0: mean of (3, 0), (0, 3), (-3, 0) is (0, 1). Round 1: all (1, 0), T = 0, the
    model is (1, 1). Round 2: T rises; {0} and {1, 2} leave from the parent (1, 1) by their own means,
    (1, 0) and ((0, 1) + (0, 3)) / 2 = (0, 2): models (2, 1) and (1, 3). Round 3: (3, 1) and (1, 4).
    """
    answers([0, 1, 1])
    history = play(
        ocfl(),
        [
            clients((3, 0), (0, 3), (-3, 0)),
            clients((1, 0), (1, 0), (1, 0)),
            clients((1, 0), (0, 1), (0, 3)),
            clients((1, 0), (0, 1), (0, 1)),
        ],
        3,
    )
    assert [model.tolist() for model in history[1][0].models] == [[1, 1]]
    assert [model.tolist() for model in history[2][0].models] == [[2, 1], [1, 3]]
    assert [model.tolist() for model in history[3][0].models] == [[3, 1], [1, 4]]
    assert history[3][0].labels_K.tolist() == [0, 1, 1]


@pytest.mark.parametrize(("window", "clustered"), [(1, 2), (2, 3), (3, 4)])
def test_a_longer_window_waits_for_a_lasting_rise(answers, window, clustered):
    """Temperatures 0.5, 0, 0.2, 0.25, 0.5 (0.25: cosine 0.5).

    Window 1: 0.2 > 0 in round 2. Window 2: 0.1 < 0.25 in round 2, 0.225 > 0.1 in round 3. Window 3:
    0.15 < 0.233 in round 3, 0.317 > 0.15 in round 4.
    """
    answers([0, 1])
    mild = clients((1, 0), (1, 3**0.5))
    history = play(ocfl(window=window), [WARM, COLD, COOL, mild, WARM], 2)
    assert rounds_clustered(history) == [clustered]


def test_a_partition_into_one_cluster_uses_the_shot(answers):
    """As in the archived runs that end in one cluster (label AA)."""
    asked = answers([0, 0])
    history = play(ocfl(), [COLD, WARM, COLD, HOT], 2)
    assert len(asked) == 1
    assert rounds_clustered(history) == [1]
    assert partition(history[3][0]) == sets([0, 1])


@pytest.mark.parametrize("noise", ["nearest", "residual"])
def test_all_noise_consumes_no_shot(answers, noise):
    """The rise of round 1 finds nothing; the rise of round 3 finds two clusters."""
    asked = answers([-1, -1], [0, 1])
    history = play(ocfl(noise=noise), [COLD, WARM, COLD, HOT], 2)
    assert len(asked) == 2
    assert rounds_clustered(history) == [3]
    assert partition(history[2][0]) == sets([0, 1])
    assert partition(history[3][0]) == sets([0], [1])


def test_as_published_all_noise_is_one_cluster_and_uses_the_shot(answers):
    """The published code takes -1 for a label like any other."""
    asked = answers([-1, -1], clusterer=HDBSCANAsPublished)
    history = play(create_algorithm("ocfl-hdbscan-as-published", {}), [COLD, WARM, COLD, HOT], 2)
    assert len(asked) == 1
    assert partition(history[3][0]) == sets([0, 1])


def test_temperature_sees_what_similarity_is_over(answers):
    """The last entry is a counter. Round 0, (5, 0 | 0) and (3, 4 | 0): distance 0.4 either way. Round 1,
    (1, 0 | 3) and (0, 1 | 3): 1 over the parameters (a rise), 1 - 9 / 10 = 0.1 over the state (none).
    """
    for over, expected in (("parameters", sets([0], [1])), ("state", sets([0, 1]))):
        answers([0, 1])
        algorithm = ocfl(similarity_over=over)
        state = start(algorithm, 2, (0, 0, 0))
        state, _ = step(algorithm, state, 0, clients((5, 0, 0), (3, 4, 0)), num_buffers=1)
        state, _ = step(algorithm, state, 1, clients((1, 0, 3), (0, 1, 3)), num_buffers=1)
        assert partition(state) == expected


def test_the_clusterer_and_its_settings_can_be_chosen():
    """Told two clusters, k-means joins the two nearest pairs of three."""
    algorithm = Ocfl(OcflSettings(clusterer=KMeans(num_clusters=2)))
    pairs = clients((4, 0), (0, 4), (-1, 3), (2, 0), (0, 2), (-2, 6))
    history = play(algorithm, [clients(*[(1, 0)] * 6), pairs], 6)
    assert partition(history[1][0]) == sets([0, 3], [1, 2, 4, 5])


def test_six_clients_in_three_directions_and_the_real_kmeans():
    """Three pairs along (1, 0), (0, 1) and (-1, -1), told 3: each pair is a cluster."""
    pairs = clients((4, 0), (0, 4), (-2, -2), (2, 0), (0, 2), (-4, -4))
    history = play(ocfl(), [clients(*[(1, 0)] * 6), pairs], 6)
    state = history[1][0]
    assert partition(state) == sets([0, 3], [1, 4], [2, 5])
    assert [model.tolist() for model in state.models] == [[4, 0], [1, 3], [-2, -3]]


def test_a_noise_client_joins_the_nearest_cluster(answers):
    """Client 3 = (1, 3) is at 1 - 0.316 from {0, 1} and at 1 - 0.949 from {2}."""
    answers([0, 0, 1, -1])
    history = play(ocfl(noise="nearest"), [SAME, NOISY], 4)
    assert partition(history[1][0]) == sets([0, 1], [2, 3])
    assert read_model(history[1][0], 3) == [1.5, 2]


def test_as_published_noise_is_one_cluster_more(answers):
    answers([0, -1, 1, -1], clusterer=HDBSCANAsPublished)
    history = play(create_algorithm("ocfl-hdbscan-as-published", {}), [SAME, NOISY], 4)
    assert partition(history[1][0]) == sets([0], [1, 3], [2])


def test_clients_without_an_update_join_the_largest_cluster(answers):
    """Of five clients 2 is missing when {0} and {1, 3, 4} part."""
    asked = answers([0, 1, 1, 1])
    history = play(
        ocfl(),
        [clients(*[(1, 0)] * 5), {0: (1, 0), 1: (0, 1), 3: (0, 1), 4: (0, 1)}, clients(*[(1, 0)] * 5)],
        5,
    )
    assert asked[0].shape == (4, 4)
    assert partition(history[1][0]) == sets([0], [1, 2, 3, 4])
    assert read_model(history[1][0], 2) == [1, 1]


def test_a_child_inherits_the_server_momentum_of_its_parent(answers):
    """m0 = x0 = (2, 0). Round 1: m = (1, 0) + (2, 0) and (1, 0) + (0, 2); x = (5, 0) and (3, 2)."""
    answers([0, 1])
    algorithm = ocfl(server_optimizer="momentum", server_momentum=0.5)
    history = play(algorithm, [clients((2, 0), (2, 0)), clients((2, 0), (0, 2))], 2)
    assert [model.tolist() for model in history[1][0].models] == [[5, 0], [3, 2]]
