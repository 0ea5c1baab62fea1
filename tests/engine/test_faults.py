"""Client actors that die, between rounds and in the middle of one, and clients whose training fails."""

import json
import os
import signal

import numpy as np
import pytest
import ray

from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import TrainTask
from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.clients import ray_pool
from fedgrid.engine.runtime.clients.actor import Client
from fedgrid.engine.runtime.configuration.complete import complete_config
from fedgrid.engine.runtime.run.prepare import prepare_setup
from fedgrid.engine.runtime.run.run_folder import build_folder_path
from fedgrid.engine.runtime.run.session import Session
from fedgrid.engine.runtime.storage.storage import Storage
from tests.helpers.client_actors import list_pids, start_client_actors
from tests.helpers.small_runs import NOWHERE, play, read_numbers

pytestmark = pytest.mark.ray

RUN = complete_config(
    {
        "clients": 6,
        "algorithm": "ocfl-kmeans",
        "training": {"rounds": 4, "keep_optimizer_state": True, "momentum": 0.9, "learning_rate": 0.03},
        "split": {"draws": 60, "server_images": 40},
    },
    NOWHERE,
)


def mortal(orders):
    """Return the client actor, with a weakness: it kills itself as the files in the folder `orders` say.

    `order.json` holds the method ("train" or "evaluate"), a client and a number of times; a death leaves
    a file `<pid>.dead`. The work is done first, so that what was done and lost must be done again.
    """

    @ray.remote(max_restarts=0)
    class Mortal(Client.__ray_metadata__.modified_class):
        def train(self, tasks, *rest):
            result = super().train(tasks, *rest)
            self._obey("train", tasks)
            return result

        def evaluate(self, tasks, *rest):
            result = super().evaluate(tasks, *rest)
            self._obey("evaluate", tasks)
            return result

        def _obey(self, method, tasks):
            path = orders / "order.json"
            if not path.exists():
                return
            order = json.loads(path.read_text())
            mine = order["method"] == method and order["client"] in [task.client for task in tasks]
            if mine and len(list(orders.glob("*.dead"))) < order["times"]:
                (orders / f"{os.getpid()}.dead").touch()
                os.kill(os.getpid(), signal.SIGKILL)

    return Mortal


class Orders:
    """The folder that the actors of `mortal` look into."""

    def __init__(self, folder):
        self.folder = folder

    def kill(self, method, client, times):
        order = {"method": method, "client": client, "times": times}
        (self.folder / "order.json").write_text(json.dumps(order))

    def deaths(self):
        return len(list(self.folder.glob("*.dead")))

    def forget(self):
        for path in self.folder.iterdir():
            path.unlink()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("orders")


@pytest.fixture
def orders(folder):
    yield Orders(folder)
    Orders(folder).forget()


@pytest.fixture(scope="module")
def pool(ray_session, folder):
    """Two client actors with three clients each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_pool, "Client", mortal(folder))
        with start_client_actors(2) as found:
            yield found


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the run leaves behind, undisturbed in this process."""
    return read_numbers(play(RUN, tmp_path_factory.mktemp("undisturbed"), cache=None))


def begin(pool, storage):
    """Return a session after the first of four rounds."""
    session = Session(pool, NOWHERE)
    session.open(RUN, Storage.from_text(storage))
    session.next_round()
    return session


def finish(session, storage):
    """Return the files of the run after its other rounds."""
    for _ in range(3):
        session.next_round()
    return read_numbers(build_folder_path(storage, RUN))


def test_an_actor_killed_between_rounds_is_replaced(tmp_path, pool, expected):
    session = begin(pool, tmp_path)
    before = list_pids(pool)
    os.kill(before[0], signal.SIGKILL)
    assert finish(session, tmp_path) == expected
    after = list_pids(pool)
    assert after[0] != before[0]
    assert after[1] == before[1]


@pytest.mark.parametrize("method", ["train", "evaluate"])
def test_an_actor_killed_during_a_round_is_replaced_and_does_its_part_again(
    tmp_path, pool, orders, expected, method
):
    session = begin(pool, tmp_path)
    orders.kill(method, client=4, times=1)
    assert finish(session, tmp_path) == expected
    assert orders.deaths() == 1


def test_after_too_many_deaths_the_run_fails_and_can_be_continued(
    tmp_path, pool, orders, expected, monkeypatch
):
    """Two, as each costs a process; for three see clients/test_deadlines.py."""
    monkeypatch.setattr(ray_pool, "MAX_DEATHS", 2)
    session = begin(pool, tmp_path)
    orders.kill("train", client=4, times=99)
    with pytest.raises(
        RunError, match=r"^clients? .*\b4\b.*, round 2: the actor died or hung 2 times, last: "
    ):
        session.next_round()
    assert orders.deaths() == 2
    assert (
        "round 2: the actor died or hung 2 times"
        in (build_folder_path(tmp_path, RUN) / "log.txt").read_text()
    )

    orders.forget()
    assert session.open(RUN, Storage.from_text(tmp_path)) == 1
    assert finish(session, tmp_path) == expected


def test_an_error_in_a_clients_training_names_client_round_and_cause(pool):
    """The clients are sent a model of three entries; the actors live on."""
    setup, _ = prepare_setup(RUN, NOWHERE)
    pool.prepare(setup)
    before = list_pids(pool)
    tasks = [TrainTask(Order(client, (0,)), 2, evaluate=False) for client in range(6)]
    with pytest.raises(RunError, match=r"^client \d, round 3: ValueError: .* shape \(3,\)") as error:
        pool.train(tasks, [np.zeros(3, np.float32)], {})
    assert "\n" not in str(error.value)
    assert list_pids(pool) == before
