"""Timing client actors that share a GPU: real training on the CPU, in threads and in processes."""

from itertools import count
from multiprocessing import dummy as threads

import pytest
import torch

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.grids.planning import gpu_speed
from fedgrid.grids.planning.gpu_probe import Workload
from fedgrid.grids.planning.gpu_speed import Crowd, speeds
from tests.helpers.gpu_stand_in import StandIn

SETTINGS = LocalTraining(local_epochs=1, batch_size=4, optimizer="sgd", learning_rate=0.01)
DIGITS = Workload("digitnet", (1, 8, 8), 10, SETTINGS)
STACKED = Workload("digitnet", (1, 8, 8), 10, SETTINGS.model_copy(update={"stacked": 3}))
ALONE, TOGETHER = Crowd(DIGITS, 1, train=8, test=2), Crowd(STACKED, 1, train=8, test=2)


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by a second whenever it is looked at."""
    monkeypatch.setattr(gpu_speed, "perf_counter", count().__next__)


def test_speed_is_that_of_all_images_of_a_stack(clock):
    """Turns begin at 0 s and 1 s; two of them have been taken when the clock says 3."""
    assert speeds([ALONE, TOGETHER], "cpu", threads) == (2 * 8 / 3, 2 * 3 * 8 / 3)


def test_each_process_takes_part_and_their_speeds_add_up(monkeypatch):
    def speed(crowd, device, barrier):
        barrier.wait()
        return float(crowd.train)

    monkeypatch.setattr(gpu_speed, "_speed", speed)
    three = Crowd(DIGITS, 3, train=8, test=2)
    assert speeds([three, three, ALONE], "cpu", threads) == (24.0, 24.0, 8.0)


def test_crowd_that_is_out_of_memory_has_no_speed_and_the_next_one_has(clock, monkeypatch):
    real = gpu_speed.ClientWorker.train

    def train(self, tasks, *given):
        if len(tasks) == 3:
            raise RunError("client 0") from torch.OutOfMemoryError("CUDA out of memory")
        return real(self, tasks, *given)

    monkeypatch.setattr(gpu_speed.ClientWorker, "train", train)
    assert speeds([TOGETHER, ALONE], "cpu", threads) == (None, 2 * 8 / 3)


def test_error_of_one_process_ends_the_others_and_is_told(monkeypatch):
    numbers = count()

    def first_turn(crowd, device):
        if next(numbers) == 0:
            raise RuntimeError("CUDA error: no kernel image is available. Compile with ...")
        return lambda: True

    monkeypatch.setattr(gpu_speed, "_first_turn", first_turn)
    with pytest.raises(RunError, match=r"no kernel image is available\)"):
        speeds([Crowd(DIGITS, 2, train=8, test=2)], "cpu", threads)


def test_processes_that_do_not_answer_are_told(monkeypatch):
    monkeypatch.setattr(gpu_speed, "TIMEOUT", 0.0)
    monkeypatch.setattr(gpu_speed, "SECONDS", 0.0)
    with pytest.raises(RunError, match="timing 1 processes .* more than 0 s, or one of them died"):
        speeds([ALONE], "cpu", threads)


@pytest.mark.parametrize("crowd", [ALONE, TOGETHER])
def test_turn_is_taken_on_the_gpu(crowd):
    with StandIn() as gpu:
        turn = gpu_speed._first_turn(crowd, "cuda")
        assert turn is not None
        gpu.forget()
        assert turn()
        assert gpu.peak > crowd.workload.training.stacked * 8 * 64


def test_spawned_processes_train_at_the_same_time():
    """On the CPU; what they import takes seconds."""
    pair = Crowd(DIGITS, 2, train=8, test=2)
    [speed] = speeds([pair], "cpu")
    assert speed is not None
    assert speed > 0
