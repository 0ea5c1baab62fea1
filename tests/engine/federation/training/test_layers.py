"""Models that draw random numbers as they train: seeded by client and round, whatever was drawn before."""

import numpy as np
import pytest
import torch

from fedgrid.engine.federation.seeds import read_global_states
from fedgrid.engine.federation.training.layers import draws_random_numbers
from fedgrid.engine.runtime.plugins import active
from tests.engine.federation.clients.test_worker import CLIENTS, comparable, host, initial, task
from tests.helpers import module_zoo
from tests.helpers.plugin_files import DROPOUT

NAMES = ["dropout-layer", "dropout-function"]


@pytest.fixture(autouse=True)
def models(tmp_path):
    (tmp_path / "own.py").write_text(DROPOUT)
    active.use_plugins([tmp_path / "own.py"])
    yield
    active.use_plugins()


def updates(worker, model, clients, round_index=0):
    tasks = [task(client, round_index=round_index) for client in clients]
    found = worker.train(tasks, [initial(model)], {})
    return {reply.report.client: comparable(reply)[2] for reply in found}


@pytest.mark.parametrize("model", NAMES)
def test_updates_do_not_depend_on_what_was_drawn_before_nor_on_who_trains_where(model):
    together = updates(host(model=model), model, range(4))
    torch.manual_seed(7)
    apart = {}
    for client in (3, 1, 0, 2):
        torch.rand(5)
        apart |= updates(host([CLIENTS[client]], model), model, [client])
    assert apart == together


@pytest.mark.parametrize("model", NAMES)
def test_stacked_clients_have_the_same_bytes(model):
    alone = updates(host(model=model), model, range(4))
    assert updates(host(model=model, stacked=3), model, range(4)) == alone


@pytest.mark.parametrize("model", NAMES)
def test_each_round_draws_its_own(model):
    """One batch of all images: but for dropout, the rounds would differ in the last bits only."""
    worker = host(model=model, batch_size=9, local_epochs=1)
    first, second = (np.frombuffer(updates(worker, model, [0], number)[0], np.float32) for number in range(2))
    assert np.abs(first - second).max() > 1e-4


def test_generators_of_the_process_are_left_as_they_were():
    torch.manual_seed(3)
    before = read_global_states()
    for model in ("digitnet", *NAMES):
        updates(host(model=model, stacked=2), model, range(2))
        updates(host(model=model), model, range(2))
    assert read_global_states() == before


@pytest.mark.parametrize("name", ["dropout", "dropout-by-numpy", "layer-drop"])
def test_model_draws_from_any_generator(name):
    """Clients of such a model are not stacked, where all would draw alike."""
    make = module_zoo.TRAINS[name]
    assert draws_random_numbers(make(), torch.ones(2, 1, 8, 8))
    assert not draws_random_numbers(module_zoo.TRAINS["layer-norm"](), torch.ones(2, 1, 8, 8))
