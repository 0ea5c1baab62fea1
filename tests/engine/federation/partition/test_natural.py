"""Groups that the data have: LEAF's writers (Caldas et al. 2018), PACS's domains (Prigent et al. 2024)."""

import numpy as np
import pytest

from fedgrid.engine.federation.data.dataset import Facts
from fedgrid.engine.federation.data.images import ImageSet
from fedgrid.engine.federation.dealing import split as splits
from fedgrid.engine.federation.dealing.split import add_official_tests
from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.partition.natural import NaturalSplit
from fedgrid.engine.federation.partition.scenarios import Scenario, build_scenario
from fedgrid.engine.federation.partition.settings import Split
from tests.helpers.partitions import deal_labels, list_held

GROUPS = np.repeat([0, 1, 2, 3], [40, 60, 80, 100])
LABELS = np.tile(np.arange(5), 56)


def deal(clients, *, groups=GROUPS, names=(), **options):
    of_pool = {"groups": groups, "group_names": names}
    return deal_labels(
        LABELS, "natural", clients, dataset="npz:any", of_pool=of_pool, **{"alpha": None, **options}
    )


def test_clients_of_a_domain_share_its_images_out():
    """As PACS: the clients of the first domain first, as many in each."""
    parts = deal(8)
    assert [part.cluster for part in parts] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [len(part.positions) for part in parts] == [20, 20, 30, 30, 40, 40, 50, 50]
    for part in parts:
        assert set(GROUPS[part.positions]) == {part.cluster}
    every = np.concatenate([part.positions for part in parts])
    assert np.array_equal(np.sort(every), np.arange(len(LABELS)))


def test_with_as_many_clients_as_writers_each_is_a_writer_and_fewer_are_a_seeded_choice_of_them():
    for part in deal(4):
        assert np.array_equal(part.positions, np.flatnonzero(part.client == GROUPS))
    chosen = [[part.cluster for part in deal(2, seed=seed)] for seed in (0, *range(12))]
    assert chosen[0] == chosen[1]
    assert len(set(map(tuple, chosen))) > 1
    assert {len(set(writers)) for writers in chosen} == {2}
    for part in deal(2):
        assert np.array_equal(part.positions, np.flatnonzero(part.cluster == GROUPS))


def test_alpha_deals_a_domain_unevenly():
    parts = deal(4, groups=np.repeat([0, 1], 140), alpha=0.5)
    assert [part.cluster for part in parts] == [0, 0, 1, 1]
    assert len(parts[0].positions) + len(parts[1].positions) == 140
    assert len(parts[0].positions) != len(parts[1].positions)


def with_official_tests(labels, groups, official):
    """Return the partition of a pool among two clients, its groups, with the official tests added."""
    pool = ImageSet(np.zeros((len(labels), 1, 1, 1), np.uint8), np.array(labels), np.array(groups))
    split = Split(kind="natural", alpha=None, tested_on="official")
    dealt = splits.split_pool(pool, max(labels) + 1, build_scenario("npz:any", "natural", 2), split, 0)
    return add_official_tests(dealt, pool, official, "natural")


def official_of(labels, groups):
    return ImageSet(np.zeros((len(labels), 1, 1, 1), np.uint8), np.array(labels), np.array(groups))


def test_official_tests_are_those_of_the_clients_own_group_and_labels():
    """The pool's first group has classes 0 and 1 alone; of four test images one is of group 0 and class 1."""
    pool = np.repeat(np.arange(3), 20), np.repeat([0, 1], [40, 20])
    official = official_of([1, 2, 1, 2], [0, 0, 1, 1])
    tested = with_official_tests(*pool, official)
    assert [(len(part.train), part.test.tolist()) for part in list_held(tested)] == [(40, [0]), (20, [3])]
    assert tested.is_official
    with pytest.raises(ConfigError, match="tested_on = official: the official test images have no groups"):
        with_official_tests(*pool, official.without_groups())


def test_a_client_without_official_test_images_is_named():
    with pytest.raises(ConfigError, match="client 1 .* 10 training and 0 official .*reference_images"):
        with_official_tests(np.tile([0, 1], 10), np.repeat([0, 1], 10), official_of([0, 1], [0, 0]))


@pytest.mark.parametrize(
    ("clients", "groups", "message"),
    [
        (200, GROUPS, "clients = 200: 50 of them would share the 40 images of group ada"),
        (2, np.repeat([0, 1], [1, 279]), r"client 0 .*; leave its group out .*split\.tested_on=official$"),
        (4, np.repeat([0, 1], [2, 278]), "; take fewer clients$"),
    ],
    ids=["more clients than images of a group", "a writer of one image", "two clients of two images"],
)
def test_clients_without_images_enough_are_refused_with_what_helps(clients, groups, message):
    with pytest.raises(ConfigError, match=message):
        deal(clients, groups=groups, names=("ada", "bea", "cem", "dan"))


def test_with_official_tests_a_writer_of_one_image_trains():
    parts = deal(2, groups=np.repeat([0, 1], [1, 279]), tested_on="official")
    assert [len(part.train) for part in parts] == [1, 279]


def facts(**given):
    return Facts(num_classes=10, inputs=image_inputs(1, 1, 1), pool_size=1000, **given)


def test_images_without_groups_are_refused_with_what_would_do():
    with pytest.raises(
        ConfigError, match="images of digits have no groups; .* folder:PATH .* train_group"
    ) as raised:
        NaturalSplit().check_settings(Scenario("digits", "natural", 4), facts(), Split(), 0)
    assert raised.value.key == ("split", "kind")


@pytest.mark.parametrize(("clients", "share"), [(1, 0.25), (4, 1.0), (40, 1.0)])
def test_expected_images_are_those_of_the_groups_that_take_part(clients, share):
    scenario = Scenario("npz", "natural", clients)
    assert NaturalSplit().expected_images(scenario, facts(num_groups=4), Split(), 0) == 1000 * share
