"""Groups that the data have themselves: facts/BASELINES.md section 10 (FEMNIST's writers, PACS's domains)."""

import numpy as np
import pytest

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing import split as splits
from fedgrid.engine.federation.dealing.split import add_official_tests
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import pixels
from fedgrid.engine.federation.partition.natural import Natural
from fedgrid.engine.federation.partition.scenarios import Scenario, scenario_of
from fedgrid.engine.federation.partition.settings import Split
from tests.helpers.partitions import by_client, split_pool

GROUPS = np.repeat([0, 1, 2, 3], [40, 60, 80, 100])
LABELS = np.tile(np.arange(5), 56)


def deal(clients, *, groups=GROUPS, labels=LABELS, seed=0, names=(), **options):
    return split_pool(
        labels,
        dataset="npz:any",
        num_classes=5,
        num_clients=clients,
        split=Split(kind="natural", **{"alpha": None, **options}),
        seed=seed,
        groups=groups,
        group_names=names,
    )


def held(part):
    return np.sort(np.concatenate([part.train, part.test]))


def test_clients_of_a_domain_share_its_images_out():
    """As PACS: the clients of the first domain first, as many in each."""
    parts = deal(8)
    assert [part.cluster for part in parts] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [len(held(part)) for part in parts] == [20, 20, 30, 30, 40, 40, 50, 50]
    for part in parts:
        assert set(GROUPS[held(part)]) == {part.cluster}
    assert np.array_equal(np.sort(np.concatenate([held(part) for part in parts])), np.arange(len(LABELS)))


def test_with_as_many_clients_as_writers_each_is_a_writer():
    parts = deal(4)
    for part in parts:
        assert np.array_equal(held(part), np.flatnonzero(part.client == GROUPS))


def test_fewer_clients_than_writers_are_a_seeded_choice_of_them():
    chosen = [[part.cluster for part in deal(2, seed=seed)] for seed in (0, 0, 1, 2, 3)]
    assert chosen[0] == chosen[1]
    assert len(set(map(tuple, chosen))) > 1
    for part in deal(2):
        assert np.array_equal(held(part), np.flatnonzero(part.cluster == GROUPS))


def test_alpha_deals_a_domain_unevenly():
    parts = deal(4, groups=np.repeat([0, 1], 140), alpha=0.5)
    assert [part.cluster for part in parts] == [0, 0, 1, 1]
    assert len(held(parts[0])) + len(held(parts[1])) == 140
    assert len(held(parts[0])) != len(held(parts[1]))


def test_official_tests_are_those_of_the_clients_own_group_and_labels():
    """The pool's first group has classes 0 and 1 alone; of four test images one is of group 0 and class 1."""
    pool = ImageSet(
        np.zeros((60, 1, 1, 1), np.uint8), np.repeat(np.arange(3), 20), np.repeat([0, 1], [40, 20])
    )
    official = ImageSet(
        np.zeros((4, 1, 1, 1), np.uint8), np.array([1, 2, 1, 2]), np.array([0, 0, 1, 1], np.int64)
    )
    split = Split(kind="natural", alpha=None, tested_on="official")
    parts = splits.split_pool(pool, 3, scenario_of("npz:any", "natural", 2), split, 0)
    tested = add_official_tests(parts, pool, official, "natural")
    assert [(len(part.train), part.test.tolist()) for part in by_client(tested)] == [(40, [0]), (20, [3])]
    assert tested.is_official
    with pytest.raises(ConfigError, match="tested_on = official: the official test images have no groups"):
        add_official_tests(parts, pool, official.without_groups(), "natural")


def test_a_client_without_official_test_images_is_named():
    pool = ImageSet(np.zeros((20, 1, 1, 1), np.uint8), np.tile([0, 1], 10), np.repeat([0, 1], 10))
    official = ImageSet(np.zeros((2, 1, 1, 1), np.uint8), np.array([0, 1]), np.zeros(2, np.int64))
    split = Split(kind="natural", alpha=None, tested_on="official")
    parts = splits.split_pool(pool, 2, scenario_of("npz:any", "natural", 2), split, 0)
    with pytest.raises(ConfigError, match="client 1 .* 10 training and 0 official .*reference_images"):
        add_official_tests(parts, pool, official, "natural")


def test_more_clients_than_images_of_a_group_are_refused():
    message = "clients = 200: 50 of them would share the 40 images of group ada"
    with pytest.raises(ConfigError, match=message):
        deal(200, names=("ada", "bea", "cem", "dan"))


def test_a_writer_of_one_image_is_refused_with_what_helps():
    groups = np.repeat([0, 1], [1, 279])
    with pytest.raises(ConfigError, match=r"client 0 .*; leave its group out .*split\.tested_on=official$"):
        deal(2, groups=groups)
    assert [len(part.train) for part in deal(2, groups=groups, tested_on="official")] == [1, 279]
    with pytest.raises(ConfigError, match="; take fewer clients$"):
        deal(4, groups=np.repeat([0, 1], [2, 278]))


def test_images_without_groups_are_refused_with_what_would_do():
    scenario = Scenario("digits", "natural", 4)
    facts = Facts(num_classes=10, inputs=pixels(1, 1, 1), pool_size=100)
    with pytest.raises(
        ConfigError, match="images of digits have no groups; .* folder:PATH .* train_group"
    ) as raised:
        Natural().check(scenario, facts, Split(), 0)
    assert raised.value.key == ("split", "kind")


@pytest.mark.parametrize(("clients", "share"), [(1, 0.25), (4, 1.0), (40, 1.0)])
def test_expected_images_are_those_of_the_groups_that_take_part(clients, share):
    scenario = Scenario("npz", "natural", clients)
    facts = Facts(num_classes=10, inputs=pixels(1, 1, 1), pool_size=1000, num_groups=4)
    assert Natural().expected_images(scenario, facts, Split(), 0) == 1000 * share
