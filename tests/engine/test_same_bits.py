"""One run gives the same bytes in this process, with 1, 3 and 4 client actors, and with interruptions.

Digits, 6 clients, five rounds; the temperature's switch fires in round 3 or 4, so that rounds with one
model and with several are seen.
"""

from copy import copy
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load

from fedgrid.engine.runtime.clients import ray_pool
from fedgrid.engine.runtime.clients.local_pool import InProcessPool
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.plugins import active
from fedgrid.engine.runtime.plugins.plugin import digest_code
from fedgrid.engine.runtime.round_cache.files import CacheOptions
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from tests.engine.federation.clients.test_worker import comparable, initial, setup, task
from tests.helpers import module_zoo
from tests.helpers.client_actors import start_client_actors
from tests.helpers.plugin_files import DROPOUT
from tests.helpers.small_runs import NOWHERE, read_numbers

pytestmark = pytest.mark.ray

ROUNDS = 5
CLIENTS, ACTORS = 6, 4


def config(algorithm, training=None, **given):
    training = {"rounds": ROUNDS, **(training or {})}
    values = {"algorithm": algorithm, "clients": CLIENTS, "training": training, **given}
    values = {"split": {"draws": 120, "server_images": 60}, **values}
    return complete_config(values, NOWHERE)


CHANGING = "clients that come and go, attack and move, in flipped groups, in bfloat16"
RUNS = {
    "kept momentum": config(
        {"name": "ocfl-hdbscan", "server_optimizer": "momentum", "server_momentum": 0.3},
        {"keep_optimizer_state": True, "momentum": 0.9, "learning_rate": 0.03},
    ),
    "kept Adam, unequal clients, every step of the uplink, AUC": config(
        "ocfl-hdbscan",
        {"keep_optimizer_state": True, "optimizer": "adam", "learning_rate": 0.003},
        split={"kind": "overlapping-imbalanced", "draws": 120},
        evaluation={"every": 2, "probabilities": True},
        uplink=[{"clip": 1.0}, {"noise": 0.003}, {"topk": 0.5}, {"quantise": 8}],
    ),
    CHANGING: config(
        "ocfl-kmeans",
        {
            "keep_optimizer_state": True,
            "momentum": 0.5,
            "learning_rate": 0.05,
            "precision": "bfloat16",
            "local_epochs": 1,
        },
        split={"kind": "flipped", "server_images": 60, "tested_on": "official", "num_clusters": 2},
        participation=0.5,
        dropout=0.2,
        joins={5: 2, 3: 4},
        faults={"label_flip": [1], "sign_flip": [2], "scale": {2: 3}},
        drift={0: {"round": 3, "to": 1}},
    ),
}


@pytest.fixture(scope="module")
def actors(ray_session):
    """Two actors with two clients each and two with one, of this process."""
    with start_client_actors(ACTORS) as pool:
        yield pool


def first(pool, num_actors):
    """Return a pool of the first actors of another one: a process costs three seconds."""
    part = copy(pool)
    part._actors = pool._actors[:num_actors]
    return part


def finish(run, storage, *pools, cache=None):
    """Run one round in each of `pools` in turn, the rest in the last one, each time from the folder alone."""
    for number, pool in enumerate(pools, start=1):
        session = Session(pool, NOWHERE, threads=number, cache=cache)
        done = session.open(run, Storage.from_text(storage))
        until = run.training.rounds if number == len(pools) else number
        for _ in range(done, until):
            session.next_round()
    return read_numbers(build_folder_path(storage, run))


@pytest.fixture(scope="module", params=RUNS)
def run(request):
    return RUNS[request.param]


@pytest.fixture(scope="module")
def expected(run, tmp_path_factory):
    """What the run leaves behind, undisturbed in this process."""
    return finish(run, tmp_path_factory.mktemp("undisturbed"), InProcessPool())


def test_the_runs_see_one_cluster_and_then_several(run, tmp_path, expected):
    memories = [name for name in expected if name.startswith("state-client-")]
    assert sorted(set(expected) - set(memories)) == [
        "clients.parquet",
        "config.json",
        "rounds.parquet",
        "state-000004.safetensors",
        "state-000005.safetensors",
    ]
    (tmp_path / "rounds.parquet").write_bytes(expected["rounds.parquet"])
    clusters = pq.read_table(tmp_path / "rounds.parquet")["clusters"].to_pylist()
    assert clusters[0] == 1
    assert 2 <= clusters[-1] < CLIENTS
    clients = {name.removeprefix("state-client-")[:6] for name in memories}
    assert "000005" in clients


def test_run_with_client_actors_gives_the_same_bytes(run, tmp_path, expected, actors):
    assert finish(run, tmp_path, first(actors, 3)) == expected


@pytest.mark.parametrize("run", [CHANGING], indirect=True)
def test_run_whose_replies_are_an_object_an_update_gives_the_same_bytes(
    run, tmp_path, expected, actors, monkeypatch
):
    """Not one an actor."""
    monkeypatch.setattr(ray_pool, "SMALL_MODEL_BYTES", 0)
    assert finish(run, tmp_path, actors) == expected


def test_run_moved_to_another_pool_after_each_round_gives_the_same_bytes(run, tmp_path, expected, actors):
    pools = (first(actors, 4), InProcessPool(), InProcessPool(), first(actors, 1), first(actors, 2))
    assert finish(run, tmp_path, *pools) == expected


@pytest.mark.parametrize("run", ["kept momentum"], indirect=True)
def test_run_with_cache_hits_until_it_deviates_gives_the_same_bytes(run, tmp_path, expected, actors):
    """Those that plain averaging has left there, with the same server optimizer."""
    plain = {**run.algorithm.model_dump(), "name": "fedavg"}
    settings = {name: plain[name] for name in ("name", "server_optimizer", "server_momentum")}
    finish(config(settings, run.training.model_dump()), tmp_path, InProcessPool(), cache=CacheOptions())
    assert finish(run, tmp_path, first(actors, 3), cache=CacheOptions()) == expected
    timings = pq.read_table(build_folder_path(tmp_path, run) / "timings.parquet")
    trained = timings["trained_clients"].to_pylist()
    assert trained[0] == 0
    assert trained[-1] == CLIENTS


def test_stacked_run_moved_to_another_pool_after_each_round_gives_the_same_bytes(tmp_path, actors):
    """Two stacks of which half of the clients are asked; one actor has both, or each its own."""
    settings = {"stacked": 4, "keep_optimizer_state": True, "momentum": 0.5, "learning_rate": 0.05}
    run = config("ocfl-kmeans", settings, participation=0.5)
    pools = (first(actors, 4), InProcessPool(), first(actors, 1), first(actors, 2), InProcessPool())
    here = finish(run, tmp_path / "here", InProcessPool())
    assert finish(run, tmp_path / "there", *pools) == here


def test_clusters_before_training_are_the_same_in_actors(actors, tmp_path):
    """The encoder is trained among the clients too; one of them joins in round 2."""
    run = config(
        {"name": "embeddings", "encoder": {"federated": 1, "local_epochs": 1}},
        {"rounds": 2, "local_epochs": 1},
        split={"kind": "flipped", "server_images": 60, "num_clusters": 2},
        joins={5: 2},
    )
    here = finish(run, tmp_path / "here", InProcessPool())
    assert finish(run, tmp_path / "there", first(actors, 2)) == here


@pytest.fixture
def dropout(tmp_path):
    """Let this process know a model that draws random numbers as it trains."""
    (tmp_path / "own.py").write_text(DROPOUT)
    active.use_plugins([tmp_path / "own.py"])
    yield "dropout-function"
    active.use_plugins()


def test_model_that_draws_as_it_trains_gives_the_same_bytes_in_any_place(actors, tmp_path, dropout):
    """Stacked runs have another id; their clients train one after the other."""
    run = config("ocfl-kmeans", {"rounds": 3}, model=dropout)
    here = finish(run, tmp_path / "here", InProcessPool())
    assert finish(run, tmp_path / "there", first(actors, 1), first(actors, 3), InProcessPool()) == here
    stacked = finish(
        config("ocfl-kmeans", {"rounds": 3, "stacked": 4}, model=dropout),
        tmp_path / "stacked",
        first(actors, 2),
    )
    one, other = (load(files["state-000003.safetensors"]) for files in (stacked, here))
    assert {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in other.items()
    }


@pytest.fixture
def zoo():
    file = Path(module_zoo.__file__)
    active.use_plugins([file])
    yield digest_code(file.read_bytes())
    active.use_plugins()


def test_modules_of_many_kinds_train_to_the_same_bytes_in_one_actor_and_in_three(actors, zoo):
    """The second round's training follows tests, and other clients: four of one process, then of two."""
    for name in module_zoo.ON_RAY:
        given, replies = setup(model=name, plugins=(zoo,)), []
        for pool in (InProcessPool(), first(actors, 1), first(actors, 3)):
            pool.prepare(given)
            for number in range(2):
                tasks = [task(client, round_index=number, evaluate=True) for client in range(4)]
                found = pool.train(tasks, [initial(name)], {})
            replies.append([comparable(reply)[1:] for reply in found])
        assert replies[0] == replies[1] == replies[2], name
