"""Clients with a majority class: Bettinelli, Benoit, Grandjean 2024."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.majority import (
    FIRST_GROUP,
    count_by_class,
    count_images_per_client,
    group_classes,
    number_classes,
)
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.complete import complete_config
from tests.helpers.partitions import deal_labels, find_leakage

CIFAR10 = np.repeat(np.arange(10), 5000)


def deal(labels=CIFAR10, *, clients=10, **options):
    options = {"dataset": "cifar10", "num_clusters": 2, **options}
    return deal_labels(labels, "majority", clients, **options)


def test_class_counts_worked_by_hand():
    """Of 11 images 0.5 x 11 = 5.5, to the even 6, are the client's own; of the other 5 each of the two other
    classes has 2, and the fifth is of the next class round the ring."""
    assert count_by_class(11, 4, 3, 0.5).tolist() == [[6, 3, 2], [2, 6, 3], [3, 2, 6], [6, 3, 2]]


@pytest.mark.parametrize("majority", [0.1, 0.7, 1.0])
def test_ten_clients_of_cifar10_hold_every_image_once(majority):
    """Ten clients with 5,000 images each hold the whole pool, whatever the share."""
    parts = deal(majority=majority)
    assert np.array_equal(np.sort(np.concatenate([part.positions for part in parts])), np.arange(50_000))
    for client, part in enumerate(parts):
        of_class_L = np.bincount(CIFAR10[part.positions], minlength=10)
        assert of_class_L[client] == round(5000 * majority)
        others_L = np.delete(of_class_L, client)
        assert others_L.max() - others_L.min() <= 1
        assert (len(part.train), len(part.test)) == (3500, 1500)


def test_hidden_groups_of_cifar10_are_vehicles_and_animals():
    """Airplane, automobile, ship and truck are classes 0, 1, 8 and 9: not consecutive clients."""
    assert [part.cluster for part in deal(clients=12)] == [0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]
    assert [part.cluster for part in deal(clients=3)] == [0, 0, 1], "the least"


def test_hidden_groups_of_other_data_sets():
    assert group_classes("fmnist", 10, None) == (1, 1, 1, 1, 1, 0, 1, 0, 0, 0)
    assert group_classes("folder", 5, None) == (0, 0, 1, 1, 1)
    assert group_classes("cifar10", 10, (2, 3)) == (1, 1, 0, 0, 1, 1, 1, 1, 1, 1)
    assert FIRST_GROUP["digits"] == FIRST_GROUP["mnist"]


@pytest.mark.parametrize("first", [(), (0, 1, 2), (1, 3)])
def test_first_group_must_be_some_but_not_all_classes(first):
    with pytest.raises(ConfigError, match="expected some of the classes 0 to 2, but not all") as raised:
        group_classes("cifar10", 3, first)
    assert raised.value.key == ("split", "first_group")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(40, 90), min_size=2, max_size=6),
    st.integers(2, 15),
    st.floats(0.05, 1),
    st.integers(0, 99),
)
def test_no_image_is_shared_and_all_clients_hold_the_most_possible(sizes, clients, majority, seed):
    """No image has two clients, all hold equally many, and the pool has too few images for one more each."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    first_group = list(range(0, len(sizes), 2))
    parts = deal(labels, clients=clients, majority=majority, first_group=first_group, seed=seed)
    images = len(parts[0].positions)
    together = np.concatenate([part.positions for part in parts])
    assert len(np.unique(together)) == len(together) == images * clients
    of_class_KL = [np.bincount(labels[part.positions], minlength=len(sizes)).tolist() for part in parts]
    assert of_class_KL == count_by_class(images, clients, len(sizes), majority).tolist()
    one_more_L = count_by_class(images + 1, clients, len(sizes), majority).sum(axis=0)
    assert (one_more_L > sizes).any()
    assert [part.cluster for part in parts] == [client % len(sizes) % 2 for client in range(clients)]


def test_majority_splits_never_leak():
    one, other = deal(majority=0.4), deal(majority=0.4, test_leakage="published")
    assert find_leakage(one) == 0
    assert [part.test.tolist() for part in one] == [part.test.tolist() for part in other]


def test_more_clients_than_classes_share_the_images_of_their_class():
    """Of fifteen clients two each have classes 0 to 4, so no client can hold more than half a class."""
    parts = deal(clients=15)
    assert {len(part.positions) for part in parts} == {2500}
    assert [int(CIFAR10[part.positions][0]) for part in parts] == [client % 10 for client in range(15)]


def test_draws_set_the_images_per_client():
    assert {len(part.positions) for part in deal(draws=600)} == {600}


@pytest.mark.parametrize(
    ("values", "key", "message"),
    [
        ({"num_clusters": 3}, "num_clusters", "has 2 hidden groups; leave it out"),
        ({"alpha": 0.5}, "alpha", "split.alpha = 0.5 has no effect with split majority"),
        ({"proportions": "published"}, "proportions", "split.proportions = published has no effect"),
        ({"draws": 5001}, "draws", "split.draws = 5001: .* 10 clients hold at most 5000 each"),
        ({"clients": 2}, "clients", "clients = 2: .* take at least 3"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused(values, key, message):
    with pytest.raises(ConfigError, match=message) as raised:
        deal(**values)
    assert raised.value.key[-1] == key


def test_too_many_clients_for_the_images_are_refused():
    with pytest.raises(ConfigError, match="clients = 25: .* their classes have too few images"):
        count_images_per_client([2] * 10, 25, Split())


def test_later_options_are_stored_only_if_not_default():
    def run(**split):
        return complete_config({"split": {"kind": "majority", **split}, "clients": 10}, Path("unused"))

    split = run().model_dump(mode="json")["split"]
    changes = {"majority": 0.7, "first_group": [0, 1], "scored_on": "validation"}
    assert split["num_clusters"] == 2
    assert not changes.keys() & split.keys()
    assert run(**changes).model_dump(mode="json")["split"] == {**split, **changes}


def run_of_folder(folder, names, first_group):
    """Return a run on images in folders of these names, whose first group has these classes."""
    for part in ("train", "test"):
        for name in names:
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            for number in range(4):
                Image.new("L", (8, 8)).save(folder / part / name / f"{number}.png")
    split = {"kind": "majority", "first_group": first_group}
    return complete_config({"dataset": f"folder:{folder}", "clients": 3, "split": split}, folder)


def test_classes_of_a_folder_may_be_given_by_name(tmp_path):
    """The names are those of the folders; the run is the one with their numbers."""
    names = ("ape", "bee", "cat")
    by_name = run_of_folder(tmp_path, names, ["cat", "ape"])
    assert by_name.split.first_group == (2, 0)
    assert by_name.run_id == run_of_folder(tmp_path, names, [2, 0]).run_id
    with pytest.raises(ConfigError, match="has no class 'cta'; did you mean 'cat'") as raised:
        run_of_folder(tmp_path, names, ["cta"])
    assert raised.value.key == ("split", "first_group")


def test_numbers_are_names_where_all_classes_are_called_by_numbers(tmp_path):
    """Folders 1 to 12 are numbered in the order of their names: 1, 10, 11, 12, 2, ..."""
    names = [str(name) for name in range(1, 13)]
    by_name = run_of_folder(tmp_path, names, [1, 2])
    assert by_name.split.first_group == (0, 4)
    assert complete_config(by_name.model_dump(mode="json"), tmp_path) == by_name, "a stored run has numbers"
    with pytest.raises(ConfigError, match="has no class '0'"):
        run_of_folder(tmp_path, names, [0])


def test_a_class_that_yaml_takes_for_true_is_found():
    """`first_group: [yes]` without quotes; of two classes that are meant none is."""
    assert number_classes({"first_group": [True]}, "t", ["no", "yes"]) == {"first_group": [1]}
    with pytest.raises(ConfigError, match="has true, as YAML reads yes, true, on, y; .* in quotes"):
        number_classes({"first_group": [True]}, "t", ["on", "yes"])
