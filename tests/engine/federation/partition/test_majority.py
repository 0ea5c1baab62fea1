"""Clients with a majority class: facts/BASELINES.md sections 8.3, 8.4 and 10 (Bettinelli)."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fedgrid.engine.federation.configuration.run_config import RunConfig
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.partition.majority import (
    FIRST_GROUP,
    counts,
    groups_of_classes,
    images_per_client,
    number_classes,
)
from fedgrid.engine.federation.partition.settings import Split
from fedgrid.engine.runtime.configuration.complete import complete
from tests.helpers.leakage import leakage
from tests.helpers.partitions import split_pool

NOWHERE = Path("no-data-needed")
CIFAR10 = np.repeat(np.arange(10), 5000)


def deal(labels=CIFAR10, *, dataset="cifar10", clients=10, seed=0, **options):
    return split_pool(
        labels,
        dataset=dataset,
        num_classes=int(labels.max()) + 1,
        num_clients=clients,
        split=Split(kind="majority", **{"num_clusters": 2, **options}),
        seed=seed,
    )


def held(part):
    return np.sort(np.concatenate([part.train, part.test]))


def run(split=None, **given):
    split = {"kind": "majority", **(split or {})}
    return complete({"split": split, "clients": 10, "algorithm": "fedavg", **given}, NOWHERE)


def test_class_counts_worked_by_hand():
    """Of 11 images 0.5 x 11 = 5.5, to the even 6, are the client's own; of the other 5 each of the two other
    classes has 2, and the fifth is of the next class round the ring."""
    assert counts(11, 4, 3, 0.5).tolist() == [[6, 3, 2], [2, 6, 3], [3, 2, 6], [6, 3, 2]]


@pytest.mark.parametrize("majority", [0.1, 0.4, 0.7, 1.0])
def test_ten_clients_of_cifar10_hold_every_image_once(majority):
    """Ten clients with 5,000 images each hold the whole pool, whatever the share."""
    parts = deal(majority=majority)
    assert [len(held(part)) for part in parts] == [5000] * 10
    assert np.array_equal(np.sort(np.concatenate([held(part) for part in parts])), np.arange(50_000))
    for client, part in enumerate(parts):
        of_class_L = np.bincount(CIFAR10[held(part)], minlength=10)
        assert of_class_L[client] == round(5000 * majority)
        others_L = np.delete(of_class_L, client)
        assert others_L.max() - others_L.min() <= 1
        assert (len(part.train), len(part.test)) == (3500, 1500)


def test_hidden_groups_of_cifar10_are_vehicles_and_animals():
    """Airplane, automobile, ship and truck are classes 0, 1, 8 and 9: not consecutive clients."""
    assert [part.cluster for part in deal()] == [0, 0, 1, 1, 1, 1, 1, 1, 0, 0]
    assert [part.cluster for part in deal(clients=12)] == [0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]


def test_hidden_groups_of_other_data_sets():
    assert groups_of_classes("fmnist", 10, None) == (1, 1, 1, 1, 1, 0, 1, 0, 0, 0)
    assert groups_of_classes("folder", 5, None) == (0, 0, 1, 1, 1)
    assert groups_of_classes("cifar10", 10, (2, 3)) == (1, 1, 0, 0, 1, 1, 1, 1, 1, 1)
    assert FIRST_GROUP["digits"] == FIRST_GROUP["mnist"]


@pytest.mark.parametrize("first", [(), (0, 1, 2), (1, 3)])
def test_first_group_must_be_some_but_not_all_classes(first):
    with pytest.raises(ConfigError, match="expected some of the classes 0 to 2, but not all") as raised:
        groups_of_classes("cifar10", 3, first)
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
    images = len(held(parts[0]))
    together = np.concatenate([held(part) for part in parts])
    assert len(np.unique(together)) == len(together) == images * clients
    of_class_KL = [np.bincount(labels[held(part)], minlength=len(sizes)).tolist() for part in parts]
    assert of_class_KL == counts(images, clients, len(sizes), majority).tolist()
    one_more_L = counts(images + 1, clients, len(sizes), majority).sum(axis=0)
    assert (one_more_L > sizes).any()
    assert [part.cluster for part in parts] == [client % len(sizes) % 2 for client in range(clients)]


def test_majority_splits_never_leak():
    one, other = deal(majority=0.4), deal(majority=0.4, test_leakage="published")
    assert leakage(one) == 0
    assert [part.test.tolist() for part in one] == [part.test.tolist() for part in other]


def test_more_clients_than_classes_share_the_images_of_their_class():
    """Of fifteen clients two each have classes 0 to 4, so no client can hold more than half a class."""
    parts = deal(clients=15)
    assert {len(held(part)) for part in parts} == {2500}
    assert [int(CIFAR10[held(part)][0]) for part in parts] == [client % 10 for client in range(15)]


def test_clients_of_a_single_hidden_group_are_refused():
    assert [part.cluster for part in deal(clients=3)] == [0, 0, 1]
    with pytest.raises(ConfigError, match="clients = 2: .* take at least 3"):
        deal(clients=2)


def test_draws_set_the_images_per_client():
    assert {len(held(part)) for part in deal(draws=600)} == {600}
    with pytest.raises(ConfigError, match="split.draws = 5001: .* 10 clients hold at most 5000 each"):
        deal(draws=5001)


def test_too_many_clients_for_the_images_are_refused():
    with pytest.raises(ConfigError, match="clients = 25: .* their classes have too few images"):
        images_per_client([2] * 10, 25, Split())


@pytest.mark.parametrize(
    ("values", "message", "key"),
    [
        ({"num_clusters": 3}, "has 2 hidden groups; leave it out", "num_clusters"),
        (
            {"alpha": 0.5},
            "split.alpha = 0.5 has no effect with split majority",
            "alpha",
        ),
        (
            {"proportions": "published"},
            "split.proportions = published has no effect",
            "proportions",
        ),
    ],
)
def test_settings_without_effect_on_majority_splits_are_refused(values, message, key):
    with pytest.raises(ConfigError, match=message) as raised:
        deal(**values)
    assert raised.value.key[-1] == key


@pytest.mark.parametrize(("option", "value"), [("majority", 0.7), ("first_group", (0, 1))])
def test_majority_options_are_refused_with_other_kinds(option, value):
    with pytest.raises(ConfigError, match=rf"split.{option} = .* only with: majority"):
        split_pool(
            CIFAR10,
            dataset="cifar10",
            num_classes=10,
            num_clients=10,
            split=Split(kind="overlapping-balanced", **{option: value}),
            seed=0,
        )


def test_majority_run_has_two_groups_by_default():
    config = run(dataset="cifar10")
    assert config.scenario == "cifar10-10-majority"
    assert config.split.num_clusters == 2
    assert run(split={"num_clusters": 3}).split.num_clusters == 3
    assert complete({"split": "overlapping-balanced"}, NOWHERE).split.num_clusters == 3


def test_later_options_are_stored_only_if_not_default():
    split = run().model_dump(mode="json")["split"]
    assert not {"majority", "first_group", "scored_on"} & set(split)
    changed = run(split={"majority": 0.7, "first_group": [0, 1], "scored_on": "validation"})
    kept = changed.model_dump(mode="json")
    assert kept["split"] == {**split, "majority": 0.7, "first_group": [0, 1], "scored_on": "validation"}
    assert RunConfig(**kept).run_id == changed.run_id != run().run_id


def test_classes_of_a_folder_may_be_given_by_name(tmp_path):
    """The names are those of the folders; the run is the one with their numbers."""
    for part in ("train", "test"):
        for name in ("ape", "bee", "cat"):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(4):
                Image.new("L", (8, 8)).save(tmp_path / part / name / f"{number}.png")

    def run(first):
        given = {"dataset": f"folder:{tmp_path}", "split": "majority", "clients": 3}
        return complete({**given, "split": {"first_group": first}}, tmp_path)

    assert run(["cat", "ape"]).split.first_group == (2, 0)
    assert run(["cat", "ape"]).run_id == run([2, 0]).run_id
    with pytest.raises(ConfigError, match="has no class 'cta'; did you mean 'cat'") as raised:
        run(["cta"])
    assert raised.value.key == ("split", "first_group")


def test_numbers_are_names_where_all_classes_are_called_by_numbers(tmp_path):
    """Folders 1 to 12 are numbered in the order of their names: 1, 10, 11, 12, 2, ..."""
    for part in ("train", "test"):
        for name in range(1, 13):
            (tmp_path / part / str(name)).mkdir(parents=True)
            for number in range(4):
                Image.new("L", (8, 8), name).save(tmp_path / part / str(name) / f"{number}.png")

    def run(dataset, first):
        return complete(
            {"dataset": dataset, "clients": 3, "split": {"kind": "majority", "first_group": first}}, tmp_path
        )

    by_name = run(f"folder:{tmp_path}", [1, 2])
    assert by_name.split.first_group == (0, 4)
    assert run(by_name.dataset, by_name.split.first_group) == by_name, "a stored run has numbers"
    with pytest.raises(ConfigError, match="has no class '0'"):
        run(f"folder:{tmp_path}", [0])


def test_a_class_that_yaml_takes_for_true_is_found():
    """`first_group: [yes]` without quotes; of two classes that are meant none is."""
    assert number_classes({"first_group": [True]}, "t", ["no", "yes"]) == {"first_group": [1]}
    with pytest.raises(ConfigError, match="has true, as YAML reads yes, true, on, y; .* in quotes"):
        number_classes({"first_group": [True]}, "t", ["on", "yes"])
