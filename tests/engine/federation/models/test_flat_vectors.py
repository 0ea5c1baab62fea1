import warnings

import numpy as np
import pytest
import torch
from torch import nn

from fedgrid.engine.federation.models import flat_vectors
from fedgrid.engine.federation.models.flat_vectors import FlatModule


@pytest.fixture
def module():
    return nn.Sequential(nn.Conv2d(2, 3, 2, bias=False), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 1))


def test_a_layout_names_parameters_first_and_then_buffers(module):
    layout = flat_vectors.layout_of(module)
    assert layout.names == (
        "0.weight",
        "1.weight",
        "1.bias",
        "3.weight",
        "3.bias",
        "1.running_mean",
        "1.running_var",
        "1.num_batches_tracked",
    )
    assert layout.shapes == ((3, 2, 2, 2), (3,), (3,), (1, 3), (1,), (3,), (3,), ())
    assert layout.num_parameters == 24 + 3 + 3 + 3 + 1
    assert layout.size == 34 + 3 + 3 + 1


@pytest.mark.parametrize("flat", [False, True])
def test_written_state_is_read_back(module, flat):
    vector = np.arange(41, dtype=np.float32)
    holder = FlatModule(module) if flat else None
    if holder is None:
        flat_vectors.write(module, vector)
    else:
        holder.write(vector)
    assert flat_vectors.read_vector(module).tolist() == vector.tolist()
    assert holder is None or holder.read().tolist() == vector.tolist()
    assert module[0].weight[1, 0].tolist() == [[8, 9], [10, 11]]


def test_counters_are_rounded_to_the_nearest_whole_number(module):
    vector = np.zeros(41, np.float32)
    vector[-1] = 35.9999
    flat_vectors.write(module, vector)
    assert module[1].num_batches_tracked.dtype == torch.int64
    assert flat_vectors.read_vector(module)[-1] == 36


def test_reading_copies(module):
    vector = flat_vectors.read_vector(module)
    vector[:] = 5
    assert not np.array_equal(flat_vectors.read_vector(module), vector)


def test_a_read_only_vector_is_copied_without_a_warning(module):
    vector = np.zeros(41, np.float32)
    vector.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        flat_vectors.write(module, vector)
    with torch.no_grad():
        module[3].bias.fill_(1)
    assert not vector.any()


def test_a_vector_of_another_length_is_refused(module):
    with pytest.raises(ValueError, match=r"shape \(40,\) does not fit a model of 41 entries"):
        flat_vectors.write(module, np.zeros(40, np.float32))


def test_a_flat_module_keeps_its_weights_and_shares_them_with_one_tensor(module):
    before = flat_vectors.read_vector(module)
    flat = FlatModule(module)
    assert flat_vectors.read_vector(module).tolist() == before.tolist()
    assert module[0].weight.is_contiguous(memory_format=torch.channels_last)
    flat.weights.fill_(2)
    assert flat_vectors.read_vector(module)[:34].tolist() == [2] * 34


def test_gradients_of_a_flat_module_land_in_one_tensor_in_the_order_of_the_weights(module):
    flat = FlatModule(module.eval())
    flat.module(torch.rand(1, 2, 2, 2)).sum().backward()
    expected = torch.cat([parameter.grad.reshape(-1) for parameter in module.parameters()])
    assert flat.gradient.any()
    assert flat.gather(flat.gradient).tolist() == expected.tolist()


def test_scatter_undoes_gather(module):
    flat = FlatModule(module)
    vector = np.arange(34, dtype=np.float32)
    assert flat.gather(flat.scatter(vector)).tolist() == vector.tolist()
    assert flat.scatter(vector)[:8].tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
