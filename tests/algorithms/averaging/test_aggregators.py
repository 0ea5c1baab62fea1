"""What the server makes of a group's vectors: the mean, the median, and who refuses the latter."""

import numpy as np
import pytest

from fedgrid.algorithms.clustered.flis.dynamic import average_local_models
from fedgrid.algorithms.clustering.latecomers import regroup_clients
from fedgrid.algorithms.contract.aggregator import MEAN, Median
from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.registry import ALGORITHMS, create_algorithm
from fedgrid.algorithms.updates.products import BLOCK
from tests.helpers.small_cases import (
    Federation,
    build_updates,
    check_valid,
    clients,
    frozen,
    start,
    step,
)
from tests.helpers.small_runs import config, count_trained, play, read_numbers

FIVE = [(1, 0), (2, 1), (3, 0), (2, -1), (10, 10)]
MEDIAN = {"aggregate": "median"}


def median(vectors, shares=None):
    return Median().combine([frozen(vector) for vector in vectors], shares).tolist()


def test_median_of_each_entry_leaves_out_the_one_that_lies():
    """The mean is (3.6, 2); the middle values are 2 of 1, 2, 2, 3, 10 and 0 of -1, 0, 0, 1, 10."""
    assert median(FIVE) == [2, 0]
    assert MEAN.combine([frozen(vector) for vector in FIVE]).tolist() == pytest.approx([3.6, 2])


def test_weighted_median_has_half_of_the_weight_on_either_side():
    """Of weights 3, 1, 1 the first has more than half; of 1, 1, 2 the first two have exactly half."""
    assert median([(9, 0), (1, 1), (2, 2)], (3, 1, 1)) == [9, 0]
    assert median([(1, 5), (2, 6), (7, 8)], (1, 1, 2)) == [4.5, 7]
    assert median(FIVE, (2, 2, 2, 2, 2)) == median(FIVE)


@pytest.mark.parametrize("shares", [None, (1, 2, 3)])
def test_median_of_long_vectors_is_taken_in_blocks(shares):
    rows_NP = np.random.default_rng(0).standard_normal((3, BLOCK + 5), np.float32)
    whole = median(rows_NP, shares)
    repeated = rows_NP if shares is None else np.repeat(rows_NP, shares, axis=0)
    assert whole == pytest.approx(np.median(repeated, axis=0).tolist())


def test_model_moves_by_the_median_of_its_clusters_updates():
    """Clients 0 to 4 are the federation; then 0 to 2 alone reply: of 1, 2, 3 and 0, 1, 0 the middle ones."""
    algorithm = create_algorithm("fedavg", MEDIAN)
    state, _ = step(algorithm, start(algorithm, 5), 0, clients(*FIVE))
    assert state.models[0].tolist() == [2, 0]
    state, _ = step(algorithm, state, 1, clients(*FIVE[:3]))
    assert state.models[0].tolist() == [4, 0]


def test_flis_takes_the_median_of_local_models_in_overlapping_clusters():
    """Starts 0 and 10, updates 1, 2, 3: models 1, 12, 3; of all 3, of the last two 7.5."""
    models = [frozen([0.0]), frozen([10.0])]
    updates = build_updates(clients([1], [2], [3]), chosen={0: 0, 1: 1, 2: 0})
    taken = average_local_models(models, updates, [[0, 1, 2], [1, 2]], Median())
    assert [model.tolist() for model in taken] == [[3], [7.5]]


def test_new_group_starts_from_the_median_of_its_members_models_and_the_mean_of_their_moments():
    """Four of cluster 0 and one of cluster 1: models 0, 0, 0, 0, 5 and moments 2, 2, 2, 2, 12."""
    state = State(
        (frozen([0.0]), frozen([5.0])), np.array([0, 0, 0, 0, 1]), {"cluster_first": frozen([[2], [12]])}
    )
    regrouped = regroup_clients(state, [[0, 1, 2, 3, 4]], None, Median())
    assert (regrouped.models[0].tolist(), regrouped.arrays["cluster_first"].tolist()) == ([0], [[4]])


def test_run_that_takes_medians_shares_the_work_of_round_1_and_no_mean_of_it(tmp_path):
    """The updates of round 1 are FedAvg's. Their medians are other models, from which clients train on."""
    plain, robust = config(), config({"name": "fedavg", **MEDIAN})
    of_plain = read_numbers(play(plain, tmp_path / "both"))
    of_both = read_numbers(play(robust, tmp_path / "both"))
    assert of_both == read_numbers(play(robust, tmp_path / "alone"))
    assert of_both["clients.parquet"] != of_plain["clients.parquet"]
    momentum = config({"name": "fedavg", **MEDIAN, "server_optimizer": "momentum"})
    play(momentum, tmp_path / "both")
    assert count_trained(momentum, tmp_path / "both")[0] == 0


AVERAGING = [name for name in ALGORITHMS if hasattr(ALGORITHMS[name].settings, "aggregate")]
OWN_SUMS = ("scaffold", "fednova")


@pytest.mark.parametrize(
    "name", [name for name in AVERAGING if name not in (*OWN_SUMS, "flis-hc-as-published", "flexcfl")]
)
def test_models_of_medians_are_not_those_of_means(name):
    """Clients of one group send nearly the same: the least bit differs in every model that several share."""
    (mean, _), *_ = Federation().play(create_algorithm(name, {}))
    (robust, _), *_ = Federation().play(create_algorithm(name, MEDIAN))
    check_valid(robust, 12)
    assert any(
        one.tobytes() != other.tobytes() for one, other in zip(mean.models, robust.models, strict=True)
    )


@pytest.mark.parametrize("name", AVERAGING)
def test_mean_is_the_default_and_is_not_written_down(name):
    assert "aggregate" not in create_algorithm(name).settings.model_dump()
    assert create_algorithm(name, {"aggregate": "mean"}).settings == create_algorithm(name).settings
    written = create_algorithm(name, MEDIAN).settings.model_dump(mode="json")
    assert written["aggregate"] == {"name": "median"}
    assert create_algorithm(name, written).settings == create_algorithm(name, MEDIAN).settings
