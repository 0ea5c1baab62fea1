"""Many kinds of torch modules: each trains as in a plain loop, in any process, or is refused by name."""

import random

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import build_blank, read_vector, write_vector
from fedgrid.engine.federation.seeds import make_generator
from fedgrid.engine.runtime.configuration.own_models import check_own_model
from fedgrid.engine.runtime.plugins import active
from tests.engine.federation.clients.test_worker import (
    CLASSES,
    CLIENTS,
    SEED,
    SHAPE,
    comparable,
    host,
    initial,
    task,
)
from tests.helpers import module_zoo
from tests.helpers.module_zoo import REFUSED, TRAINS


@pytest.fixture(scope="module", autouse=True)
def zoo():
    active.use_plugins([module_zoo.__file__])
    yield
    active.use_plugins()


def replies(worker, name, clients=range(4)):
    """Return of each client the bytes of its reply, of round 2."""
    found = worker.train(
        [task(client, round_index=1, evaluate=True) for client in clients], [initial(name)], {}
    )
    return {reply.report.client: comparable(reply) for reply in found}


def plain_loop(name, client):
    """Return a client's update after two epochs in batches of four, as torch's own loop makes it."""
    module, start = build_blank(name, image_inputs(*SHAPE), CLASSES, SEED), initial(name)
    write_vector(module, start)
    rng = make_generator(SEED, "batches", client=client, round_index=1)
    _, own = rng.spawn(2)
    torch.manual_seed(int(own.integers(2**63)))
    np.random.seed(int(own.integers(2**32)))  # noqa: NPY002
    random.seed(int(own.integers(2**63)))
    images, labels = (
        torch.from_numpy(part) for part in (CLIENTS[client].train.images, CLIENTS[client].train.labels)
    )
    optimizer = torch.optim.SGD([one for one in module.parameters() if one.requires_grad], 0.1)
    names = [getattr(part, "original_name", type(part).__name__) for part in module.modules()]
    has_norm = any("BatchNorm" in kind or kind == "StillNorm" for kind in names)
    for _ in range(2):
        module.train()
        for batch in torch.from_numpy(rng.permutation(len(labels))).split(4):
            if len(batch) == 1 and has_norm:
                continue
            optimizer.zero_grad()
            functional.cross_entropy(module(images[batch] / 255), labels[batch]).backward()
            optimizer.step()
    return read_vector(module) - start


@pytest.mark.parametrize("name", TRAINS)
def test_module_trains_as_in_a_plain_loop_wherever_and_after_whomever(name):
    """The ninth image of a client is a batch of its own, which a model with BatchNorm leaves out."""
    check_own_model(name, image_inputs(*SHAPE), CLASSES, (), is_stacked=False)
    states = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    worker = host(model=name)
    first, again = replies(worker, name), replies(worker, name, (2, 0, 3, 1))
    apart = {}
    for client in range(4):
        apart |= replies(host([CLIENTS[client]], name), name, [client])
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1].tolist(), random.getstate()) == states[1:]  # noqa: NPY002
    assert first == again == apart
    parts = build_blank(name, image_inputs(*SHAPE), CLASSES).modules()
    has_kernels = any(isinstance(part, torch.nn.Conv2d) for part in parts)
    for client in (0, 1):
        update = np.frombuffer(first[client][2], np.float32)
        # Kernels lie in another order in memory, which moves the last bits of convolutions.
        np.testing.assert_allclose(update, plain_loop(name, client), rtol=0, atol=2e-7 * has_kernels)


@pytest.mark.parametrize("name", REFUSED)
def test_module_whose_numbers_would_depend_on_who_trained_before_is_refused(name):
    with pytest.raises(ConfigError) as caught:
        check_own_model(name, image_inputs(*SHAPE), CLASSES, (), is_stacked=False)
    assert f"model {name}: {REFUSED[name][1]}" in str(caught.value)
