"""How many images clients hold, train on and are tested on: by hand, and as many as the engine has."""

from pathlib import Path

import pytest

from fedgrid.engine.federation.data.registry import DATASETS
from fedgrid.engine.federation.partition.scenarios import PUBLISHED_SPLITS
from fedgrid.engine.federation.training import evaluation
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.planning.images import (
    ImageCounts,
    count_images_trained,
    count_test_passes,
    estimate_images,
)

DIGITS = DATASETS["digits"]
NOWHERE = Path("nowhere")


def run(**values):
    return complete_config({"dataset": "digits", "algorithm": "fedavg", **values}, NOWHERE)


def test_local_steps_are_batches_as_large_as_the_clients_images():
    """15 clients of 100 images: 7 steps of 4 images, or of all, which are fewer than 32 each."""
    for size, images in ((4, 7 * 15 * 4), (32, 7 * 100)):
        config = run(training={"local_steps": 7, "batch_size": size})
        assert count_images_trained(config, ImageCounts(100, 40, 10)) == images


def test_served_models_are_tested_once_for_clients_of_an_actor_with_one_set():
    """Six clients with 40 test images together, in two different sets of 5. The local models on all 40."""
    images, config = ImageCounts(100, 40, 10, 10), run()
    assert [count_test_passes(config, images, 1, actors) for actors in (1, 2, 6)] == [60, 70, 90]


def test_every_third_round_and_the_last_one_have_tests():
    """Of rounds 1 to 5 the third and the fifth."""
    seldom = run(training={"rounds": 5}, evaluation={"every": 3})
    assert [count_test_passes(seldom, ImageCounts(0, 40, 10), rounds) for rounds in (0, 1, 2, 3, 5)] == [
        0,
        90,
        90,
        180,
        180,
    ]


def test_algorithm_has_one_model_up_to_the_round_in_which_it_may_cluster():
    late = run(algorithm={"name": "briggs", "round": 3}, training={"rounds": 4})
    assert count_test_passes(late, ImageCounts(0, 0, 10), 4) == 10 * (1 + 1 + 3 + 3)


@pytest.mark.parametrize(("tested_on", "local_server"), [("own", True), ("official", False), ("own", "last")])
def test_passes_are_as_many_as_the_engine_makes(tested_on, local_server, monkeypatch, tmp_path):
    config = run(
        clients=6,
        split={"tested_on": tested_on, "server_images": 20},
        evaluation={"local_server": local_server},
        training={"rounds": 2},
    )
    seen, test = [], evaluation.evaluate_model

    def counted(module, images, labels, *rest, **options):
        seen.append(len(labels))
        return test(module, images, labels, *rest, **options)

    monkeypatch.setattr(evaluation, "evaluate_model", counted)
    session = Session(InProcessPool(), NOWHERE)
    session.open(config, Storage.from_text(tmp_path))
    for _ in range(2):
        session.next_round()
    session.wait_for_writes()
    setup, _ = prepare_setup(config, NOWHERE)
    assert sum(seen) == count_test_passes(
        config, ImageCounts(0, held_for_tests(setup), 20, different(setup)), 2
    )


@pytest.mark.parametrize("split", ["overlapping-balanced", "nonoverlapping-balanced", "rotated", "iid"])
def test_expected_official_test_images_match_the_split(split):
    """Clients of a group have one test set: the labels of a group, or what the group makes of all of them."""
    config = run(split={"kind": split, "tested_on": "official"})
    setup, _ = prepare_setup(config, NOWHERE)
    images = estimate_images(config, DIGITS)
    assert images.test == pytest.approx(held_for_tests(setup), rel=0.05)
    assert images.different_tests == pytest.approx(different(setup), rel=0.05)


def held_for_tests(setup):
    """Return the number of all clients' test images together."""
    return sum(len(client.test) for client in setup.clients)


def different(setup):
    """Return how many images the clients' different test sets have together."""
    sets = {client.test.images.tobytes() + client.test.labels.tobytes(): client for client in setup.clients}
    return sum(len(client.test) for client in sets.values())


def test_expected_images_count_repeated_draws_once():
    """One cluster with all 10 classes of 144.2 images each: two draws agree once in 1442 times.

    Of one draw a client 0.3 are for testing.
    """
    images = estimate_images(run(split={"num_clusters": 1, "draws": 2}), DIGITS)
    assert images.train + images.test == pytest.approx(15 * (2 - 1 / 1442))
    one = estimate_images(run(split={"num_clusters": 1, "draws": 1, "server_images": 7}), DIGITS)
    assert (one.train, one.test, one.server) == (pytest.approx(10.5), pytest.approx(4.5), 7)


@pytest.mark.parametrize(
    "settings",
    [
        *({"split": split} for split in PUBLISHED_SPLITS),
        # The smallest class of the digits limits the split; it is 2 % smaller than the mean class.
        {"clients": 10, "split": {"kind": "majority"}},
        {"clients": 10, "split": {"kind": "majority", "majority": 0.7, "scored_on": "validation"}},
    ],
    ids=str,
)
def test_expected_images_match_the_split(settings):
    config = run(**settings)
    setup, _ = prepare_setup(config, NOWHERE)
    images = estimate_images(config, DIGITS)
    assert images.train == pytest.approx(sum(len(client.train) for client in setup.clients), rel=0.05)
    assert images.test == pytest.approx(held_for_tests(setup), rel=0.05)
    if settings["split"] in PUBLISHED_SPLITS:
        assert images.server == len(setup.server_set)
