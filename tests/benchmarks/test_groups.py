"""Deciding about groups on stored rounds."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.groups.__main__ import (
    OURS,
    WARD,
    Outcome,
    compare_methods,
    compute_outcomes,
    compute_upper_limit,
    format_rounds,
    parse_seeds,
)
from benchmarks.groups.decisions import is_same_partition, make_stand_ins, replay_decisions
from benchmarks.groups.families import DEVELOPMENT, HELD_OUT, JUDGED, has_groups
from benchmarks.groups.few_classes import select_classes
from benchmarks.groups.stored import Recorder, Round, SharedPrefix, find_pairing_round, load_shared_prefix
from fedgrid.algorithms.contract.base import State
from fedgrid.algorithms.updates.source import Layout
from fedgrid.algorithms.updates.updates import Updates
from fedgrid.engine.runtime.configuration.complete import complete_config

SMALL = {"clients": 6, "split": {"kind": "flipped", "sizes": [3, 2, 1]}, "seed": 0}
DATA = Path("data")
NOTHING = np.zeros((0, 0))


def found(ours, theirs):
    """Return the outcomes of one federation."""
    return {OURS: Outcome(ours, 3 if ours else None), WARD: Outcome(theirs, 2)}


def test_stand_ins_have_the_inner_products_of_the_updates():
    updates = np.random.default_rng(0).standard_normal((4, 50))
    vectors = make_stand_ins(updates @ updates.T, 6)
    assert vectors.shape == (4, 6)
    assert vectors @ vectors.T == pytest.approx(updates @ updates.T, rel=1e-5)


def test_partitions_are_the_same_whatever_the_numbers_of_their_clusters():
    assert is_same_partition(np.array([0, 0, 1, 2]), np.array([5, 5, 0, 1]))
    assert not is_same_partition(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2]))
    assert not is_same_partition(np.array([0, 0, 1, 2]), np.array([0, 0, 1, 1]))


def test_all_have_met_in_the_round_of_the_last_pair():
    rounds = [Round(clients, NOTHING, NOTHING) for clients in ((0, 1), (1, 2), (0, 2), (0, 1, 2))]
    assert find_pairing_round(3, rounds) == 3
    assert find_pairing_round(3, rounds[:2]) == 3, "the next round, at the earliest"


def test_an_algorithm_decides_on_stand_ins_and_stops_there():
    """BCL in round 2 joins clients at a distance below the threshold: two pairs."""
    gram = np.kron(np.eye(2), np.full((2, 2), 0.99)) + 0.01 * np.eye(4)
    shared_prefix = SharedPrefix(np.array([0, 0, 1, 1]), 0, [Round((0, 1, 2, 3), gram, 1.0 - gram)] * 4)
    history = list(replay_decisions(shared_prefix, "briggs", {"round": 2, "threshold": 0.5}))
    assert [number for number, _ in history] == [1, 2]
    assert is_same_partition(history[-1][1], shared_prefix.truth_K)


def test_standardised_distances_are_the_stored_ones():
    """The updates as they are say 0, 1 and 2, 3; the standardised ones 0, 2 and 1, 3."""
    gram = np.kron(np.eye(2), np.full((2, 2), 0.99)) + 0.01 * np.eye(4)
    order = [0, 2, 1, 3]
    rounds = [Round((0, 1, 2, 3), gram, 1.0 - gram[np.ix_(order, order)])] * 2
    shared_prefix = SharedPrefix(np.array([0, 1, 0, 1]), 0, rounds)
    settings = {"round": 1, "threshold": 0.5}
    ((_, as_they_are_K),) = replay_decisions(shared_prefix, "briggs", settings)
    ((_, standardised_K),) = replay_decisions(shared_prefix, "briggs", {**settings, "standardise": True})
    assert is_same_partition(as_they_are_K, np.array([0, 0, 1, 1]))
    assert is_same_partition(standardised_K, shared_prefix.truth_K)


def test_every_federation_is_a_run_that_can_be_made_and_none_is_in_two_sets(tmp_path: Path):
    ids = [
        {
            complete_config({"dataset": "digits", "algorithm": "fedavg", **case}, DATA).run_id
            for cases in families.values()
            for case in cases
            if not {"classes", "dataset"} & case.keys()
        }
        for families in (DEVELOPMENT, HELD_OUT, JUDGED)
    ]
    assert len(set.union(*ids)) == sum(map(len, ids))
    assert [len(each) for each in ids] == [76, 41, 36]


def test_few_classes_are_a_data_set_of_their_own(tmp_path: Path):
    given = select_classes({"clients": 2, "split": {"kind": "iid"}, "classes": 3}, tmp_path, DATA)
    with np.load(given["dataset"].removeprefix("npz:")) as file:
        assert sorted(set(file["train_labels"].tolist())) == [0, 1, 2]
        assert len(file["train_images"]) == len(file["train_labels"])
    assert complete_config(given, DATA).model == "digitnet"


def test_federation_is_trained_once(tmp_path: Path):
    first = load_shared_prefix(SMALL, 3, tmp_path, DATA)
    (path,) = tmp_path.iterdir()
    written = path.stat().st_mtime_ns
    again = load_shared_prefix(SMALL, 3, tmp_path, DATA)
    assert path.stat().st_mtime_ns == written
    assert is_same_partition(again.truth_K, np.array([0, 0, 0, 1, 1, 2]))
    assert [each.clients for each in again.rounds] == [tuple(range(6))] * 3
    np.testing.assert_array_equal(again.rounds[1].gram_MM, first.rounds[1].gram_MM)
    np.testing.assert_array_equal(again.rounds[1].standardised_MM, first.rounds[1].standardised_MM)
    assert again.counts_KL is not None
    assert again.counts_KL.shape == (6, 10)
    assert again.rounds[1].fit_M2 is not None
    assert again.rounds[1].fit_M2.shape == (6, 2)


@pytest.mark.parametrize("num_parameters", [1, 2])
def test_products_over_states_are_noted_where_there_are_buffers(num_parameters: int):
    """Two entries, the second of them a buffer or not; updates (1, 0) and (1, 2)."""
    layout = Layout(("weight", "counter"), ((1,), (1,)), num_parameters)
    vectors = {0: np.array([1.0, 0.0], np.float32), 1: np.array([1.0, 2.0], np.float32)}
    recorder = Recorder()
    state = State((np.zeros(2, np.float32),), np.zeros(2, np.int64))
    recorder.recluster(state, 0, Updates(vectors, layout), np.random.default_rng(0))
    [noted] = recorder.rounds
    whole = [[1.0, 1.0], [1.0, 5.0]]
    if num_parameters == 2:
        assert noted.gram_MM.tolist() == whole
        assert noted.states_gram_MM is None
    else:
        assert noted.gram_MM.tolist() == [[1.0, 1.0], [1.0, 1.0]]
        assert noted.states_gram_MM is not None
        assert noted.states_gram_MM.tolist() == whole


def test_outcomes_say_who_is_right_and_who_cuts_up(tmp_path: Path):
    grouped = compute_outcomes(SMALL, True, 3, tmp_path, DATA)
    alone = compute_outcomes(SMALL, False, 3, tmp_path, DATA)
    assert WARD in grouped
    assert WARD not in alone, "there is nothing to tell"
    assert alone["BCL, round 3"] == Outcome(True, 3)
    assert grouped["BCL, round 3"] == Outcome(True, 3)


def test_seed_that_leaves_a_client_without_images_has_no_outcome(tmp_path: Path):
    case = {"clients": 20, "split": {"kind": "overlapping-balanced", "quantity": 0.3}, "seed": 17}
    assert compute_outcomes(case, True, 3, tmp_path, DATA) == {}


def test_paired_counts_by_hand():
    """Three better, none worse: p = 2 / 8."""
    counts = [found(True, False)] * 3 + [found(True, True), found(False, False)]
    assert compare_methods(counts) == "3 / 0 (0.25)"
    assert compare_methods(counts[3:]) == "0 / 0 (1)"
    assert format_rounds(counts) == "3, 3"


def test_limit_of_nothing_seen():
    """0 of n: 1 - 0.05^(1/n)."""
    assert compute_upper_limit(0, 150) == pytest.approx(1 - 0.05 ** (1 / 150))
    assert compute_upper_limit(5, 5) == 1.0


def test_families_without_groups_are_named_so():
    assert has_groups("60 clients")
    assert not has_groups("none, noisy labels")


@pytest.mark.parametrize(
    ("text", "seeds"), [("500..502", [500, 501, 502]), ("7", [7]), ("1000..", [1000, 1001])]
)
def test_seeds_are_a_range_or_as_many_as_are_asked_for(text, seeds):
    assert list(parse_seeds(text, 2)) == seeds
