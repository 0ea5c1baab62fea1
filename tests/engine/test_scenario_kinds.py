"""Every kind of scenario as a run of one round, in this process."""

import pickle

import pyarrow.parquet as pq
import pytest

from fedgrid.engine.federation.clients import workspace
from fedgrid.engine.federation.dealing.kinds import KINDS
from fedgrid.engine.federation.partition.scenarios import PUBLISHED_SPLITS
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.data.datasets import digest_pair, find_dataset, load_dataset
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.execution.run_events import run_to_end
from fedgrid.grids.planning.images import estimate_images
from fedgrid.tracking.records import read_records
from tests.helpers.small_grid import NOWHERE
from tests.helpers.small_runs import digits_of_two_writers

CLIENTS = 8
TRUTH = {
    "majority": [0, 1, 1, 1, 1, 1, 0, 1],
    "label-skew": list(range(8)),
    "dirichlet": [0] * 8,
    "iid": [0] * 8,
    "rotated": [0, 1, 2, 3] * 2,
    "rolled": [0, 1, 2, 3] * 2,
    "flipped": [0, 1, 2, 3] * 2,
    "swapped": [0, 1, 2, 3] * 2,
    "dimmed": [0, 1, 2, 3] * 2,
    "noisy": [0, 1, 2, 3] * 2,
    "two-levels": [0, 1, 2, 3] * 2,
    "continuum": [0] * 8,
    "natural": [0, 0, 0, 0, 1, 1, 1, 1],
    "file": [0, 0, 0, 0, 1, 1, 1, 1],
}
NAMES = {0: "ada", 1: "bright"}
"""Of the groups, where the data or a file name them."""


@pytest.fixture
def written_by_two(tmp_path):
    return digits_of_two_writers(tmp_path)


def config(dataset, kind, **split):
    given = {"dataset": dataset, "clients": CLIENTS, "algorithm": "fedavg", "model": "digitnet"}
    return complete_config(
        {**given, "training": {"rounds": 1, "local_epochs": 1}, "split": {"kind": kind, **split}}, NOWHERE
    )


def written_to(folder):
    """Write a file by which clients hold every eighth of digits' images, and return its path."""
    rows = [f"{client},{NAMES[group]}" for client, group in enumerate(TRUTH["file"])]
    lines = [
        "client,group",
        *(rows[image % CLIENTS] for image in range(find_dataset("digits", NOWHERE).pool_size)),
    ]
    (folder / "mine.csv").write_text("\n".join(lines))
    return folder / "mine.csv"


@pytest.mark.parametrize(
    ("kind", "tested_on"),
    [
        *((kind, "own") for kind in TRUTH),
        ("swapped", "official"),
        ("natural", "official"),
        ("file", "official"),
    ],
)
def test_run_records_its_hidden_groups_and_the_sizes_of_its_sets(kind, tested_on, tmp_path):
    dataset = digits_of_two_writers(tmp_path) if kind == "natural" else "digits"
    options = {"path": str(written_to(tmp_path))} if kind == "file" else {}
    run, storage = config(dataset, kind, tested_on=tested_on, **options), Storage.from_text(tmp_path / "runs")
    for _ in run_to_end(Session(InProcessPool(), NOWHERE), run, storage, lambda: False):
        pass
    folder = build_folder_path(storage.root, run)
    rows = pq.read_table(folder / "clients.parquet").to_pydict()
    assert rows["true_cluster"] == TRUTH[kind]
    names = NAMES if kind in ("natural", "file") else {}
    assert read_records(folder).group_names == names
    assert rows.get("group", []) == [names[group] for group in rows["true_cluster"] if names]
    setup, _ = prepare_setup(run, NOWHERE)
    assert rows["train_images"] == [len(client.train) for client in setup.clients]
    assert rows["test_images"] == [len(client.test) for client in setup.clients]
    assert all(score is not None for score in rows["personalised_accuracy"])


def test_every_kind_is_run():
    """That of a single client is in `test_centralised`."""
    assert set(TRUTH) == set(KINDS) - {*PUBLISHED_SPLITS, "centralised"}


def test_clients_with_the_same_official_tests_hold_them_once(monkeypatch):
    """Two of eight clients in each of four groups, all with every class: four test sets, also on a device."""
    setup, _ = prepare_setup(config("digits", "rotated", tested_on="official"), NOWHERE)
    assert len({id(client.test) for client in setup.clients}) == 4
    assert all(setup.clients[k].test is setup.clients[k + 4].test for k in range(4))
    put, of = [], workspace.DeviceSet.from_images
    monkeypatch.setattr(
        workspace.DeviceSet, "from_images", lambda held, device: put.append(held) or of(held, device)
    )
    there = pickle.loads(pickle.dumps(setup))
    workspace.Holdings(there, "meta")
    assert [len(held) for held in put].count(355) == 4


def test_searches_never_touch_official_tests():
    """Clients are scored on a part of their training images, as with tests of their own."""
    setup, _ = prepare_setup(
        config("digits", "rotated", tested_on="official", scored_on="validation", num_clusters=1), NOWHERE
    )
    pool, _ = load_dataset("digits", NOWHERE)
    in_pool = {image.tobytes() for image in pool.images}
    assert all(image.tobytes() in in_pool for client in setup.clients for image in client.test.images)
    assert sum(len(client.train) + len(client.test) for client in setup.clients) == len(pool)


def test_groups_are_part_of_a_data_sets_identity(written_by_two):
    pool, server = load_dataset(written_by_two, NOWHERE)
    others = type(pool)(pool.images, pool.labels, 1 - pool.groups)
    plain = pool.without_groups(), server.without_groups()
    assert len({digest_pair((pool, server)), digest_pair((others, server)), digest_pair(plain)}) == 3
    assert digest_pair(plain) == digest_pair(load_dataset("digits", NOWHERE)), "as before there were groups"


@pytest.mark.parametrize("tested_on", ["own", "official"])
@pytest.mark.parametrize("kind", ["label-skew", "rotated", "continuum", "natural"])
def test_dry_runs_expect_as_many_images_as_there_are(kind, tested_on, written_by_two):
    run = config(written_by_two if kind == "natural" else "digits", kind, tested_on=tested_on)
    setup, _ = prepare_setup(run, NOWHERE)
    images = estimate_images(run, find_dataset(run.dataset, NOWHERE))
    assert images.train == pytest.approx(sum(len(client.train) for client in setup.clients), rel=0.1)
    # Of an npz file the number of test images is not known before it is read: a fifth of the pool is assumed.
    assert images.test == pytest.approx(sum(len(client.test) for client in setup.clients), rel=0.25)
