"""Measuring clients on a GPU: real training on the CPU, with stand-ins for what `torch.cuda` says."""

from itertools import count
from multiprocessing import dummy as threads
from threading import Event

import pytest
import torch

from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.federation.inputs import pixels
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.grids.planning import gpu_probe
from fedgrid.grids.planning.gpu_probe import Crowd, Probed, Work, probe
from fedgrid.grids.planning.workload import Workload
from tests.helpers.gpu_stand_in import StandIn

SETTINGS = LocalTraining(local_epochs=1, batch_size=4, optimizer="adam", learning_rate=0.01)
DIGITS = Workload("digitnet", pixels(1, 8, 8), 10, SETTINGS)
STACKED = Workload("digitnet", pixels(1, 8, 8), 10, SETTINGS.model_copy(update={"stacked": 3}))
ALONE = Crowd(DIGITS, 1, train=8, test=2, seconds=2.0)
TOGETHER = Crowd(STACKED, 1, train=8, test=2, seconds=2.0)
CONTEXT, RESERVED, TOTAL = 500, 70, 8000


class Gpu:
    """A GPU of 8,000 bytes: 1,000 of another process, 300 of the outer one, 500 and tensors of the inner."""

    def __init__(self, monkeypatch):
        self.inner, self.peaks = 0, []
        for name in ("mem_get_info", "empty_cache", "reset_peak_memory_stats", "memory_reserved"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "max_memory_reserved", self.max_memory_reserved)
        # It looks through all modules of this process, half a second each time.
        monkeypatch.setattr(gpu_probe.gc, "collect", lambda: 0)

    def mem_get_info(self):
        return TOTAL - 1300 - self.inner, TOTAL

    def empty_cache(self):
        self.inner = CONTEXT

    def reset_peak_memory_stats(self):
        self.peaks.append(100 * (1 + len(self.peaks)))

    def max_memory_reserved(self):
        self.inner = CONTEXT + RESERVED
        return self.peaks[-1]

    def memory_reserved(self):
        return RESERVED


@pytest.fixture
def gpu(monkeypatch):
    return Gpu(monkeypatch)


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by a second whenever it is looked at."""
    monkeypatch.setattr(gpu_probe, "perf_counter", count().__next__)


def reserved(*workloads):
    """Return the bytes that training each workload reserves."""
    probed = probe([Crowd(workload) for workload in workloads], "cpu", threads)
    return [None if work is None else work.reserved for work in probed.crowds]


def speeds(*crowds):
    """Return the speed of each crowd."""
    return [None if work is None else work.speed for work in probe(crowds, "cpu", threads).crowds]


def test_context_is_what_the_gpu_has_lost_but_for_tensors(gpu):
    probed = probe([Crowd(DIGITS), Crowd(STACKED)], "cpu", threads)
    assert probed == Probed(TOTAL, CONTEXT, (Work(100, 0.0), Work(200, 0.0)))


def test_workload_that_does_not_fit_is_told_and_the_next_one_measured(gpu, monkeypatch):
    def work(crowd, device):
        if crowd.workload is DIGITS:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return lambda: 1

    monkeypatch.setattr(gpu_probe, "_first_turn", work)
    assert reserved(DIGITS, STACKED) == [None, 200]


def test_training_that_runs_out_of_memory_is_told_though_the_worker_wraps_its_error(gpu, monkeypatch):
    def train(*given, **settings):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("fedgrid.engine.federation.training.local.train", train)
    assert reserved(DIGITS) == [None]


def test_another_error_of_training_is_no_lack_of_memory(gpu, monkeypatch):
    def train(*given, **settings):
        raise RuntimeError("CUDA error: no kernel image is available")

    monkeypatch.setattr("fedgrid.engine.federation.training.local.train", train)
    with pytest.raises(RunError, match="no kernel image"):
        reserved(DIGITS)


def test_a_whole_batch_is_trained_and_a_whole_one_tested(gpu, monkeypatch):
    seen = []
    real_train, real_test = ClientWorker.train, ClientWorker.evaluate

    def train(self, *given):
        replies = real_train(self, *given)
        seen.extend((reply.report.images, reply.report.steps) for reply in replies)
        return replies

    def evaluate(self, *given):
        [report] = real_test(self, *given)
        seen.append((int(report.own.confusion.sum()), int(report.server[0].confusion.sum())))
        return [report]

    monkeypatch.setattr(ClientWorker, "train", train)
    monkeypatch.setattr(ClientWorker, "evaluate", evaluate)
    reserved(Workload("digitnet", pixels(1, 8, 8), 10, SETTINGS.model_copy(update={"normalise": "dataset"})))
    assert seen == [(4, 1), (128, 128)]


def test_wrong_settings_are_the_same_error_as_in_training(gpu, monkeypatch):
    def refuse(crowd, device):
        raise ConfigError("training.batch_size=1 does not work with a model that has BatchNorm")

    monkeypatch.setattr(gpu_probe, "_first_turn", refuse)
    with pytest.raises(ConfigError, match="batch_size=1"):
        reserved(DIGITS)


def test_process_that_cannot_open_the_gpu_is_told_in_a_line(gpu, monkeypatch):
    """In exclusive mode the outer process has it: a plan for an actor a GPU goes on without measuring."""

    def fail(crowd, device):
        raise RuntimeError("CUDA error: devices are busy or unavailable\nFor debugging consider")

    monkeypatch.setattr(gpu_probe, "_first_turn", fail)
    with pytest.raises(RunError, match=r"failed \(CUDA error: devices are busy or unavailable\)$"):
        reserved(DIGITS)


def test_process_that_does_not_answer_is_told(gpu, monkeypatch):
    answer = Event()
    monkeypatch.setattr(gpu_probe, "TIMEOUT", 0.0)
    monkeypatch.setattr(gpu_probe, "_first_turn", lambda crowd, device: answer.wait())
    with pytest.raises(RunError, match="took more than 0 s, or a process died"):
        probe([Crowd(DIGITS)], "cpu", Answering(answer))


def test_speed_is_that_of_all_images_of_a_stack(gpu, clock):
    """Turns begin at 0 s and 1 s; two of them have been taken when the clock says 3."""
    assert speeds(ALONE, TOGETHER) == [2 * 8 / 3, 2 * 3 * 8 / 3]


def test_each_process_takes_part_and_their_speeds_add_up(gpu, monkeypatch):
    monkeypatch.setattr(gpu_probe, "_speed", lambda crowd, turn: float(crowd.train))
    three = Crowd(DIGITS, 3, train=8, test=2)
    assert speeds(three, three, Crowd(DIGITS, 1, train=8, test=2)) == [24.0, 24.0, 8.0]


def test_crowd_that_is_out_of_memory_has_no_speed_and_the_next_one_has(gpu, clock, monkeypatch):
    real = ClientWorker.train

    def train(self, tasks, *given):
        if len(tasks) == 3:
            raise RunError("client 0") from torch.OutOfMemoryError("CUDA out of memory")
        return real(self, tasks, *given)

    monkeypatch.setattr(ClientWorker, "train", train)
    assert speeds(TOGETHER, ALONE) == [None, 2 * 8 / 3]


def test_error_of_one_process_ends_the_others_and_is_told(gpu, monkeypatch):
    numbers = count()

    def first_turn(crowd, device):
        if next(numbers) == 0:
            raise RuntimeError("CUDA error: no kernel image is available. Compile with ...")
        return lambda: 1

    monkeypatch.setattr(gpu_probe, "_first_turn", first_turn)
    with pytest.raises(RunError, match=r"no kernel image is available\)"):
        speeds(Crowd(DIGITS, 3, train=8, test=2))


@pytest.mark.parametrize("crowd", [ALONE, TOGETHER])
def test_turn_is_taken_on_the_gpu(crowd):
    with StandIn() as gpu:
        turn = gpu_probe._first_turn(crowd, "cuda")
        gpu.forget()
        assert turn() == 8 * crowd.workload.training.stacked
        assert gpu.peak > crowd.workload.training.stacked * 8 * 64


class Answering:
    """Makes a pool whose task ends with the pool, so that no thread stays."""

    Barrier = threads.Barrier

    def __init__(self, answer):
        self._answer = answer

    def Pool(self, *given):
        self._pool = threads.Pool(*given)
        return self

    def __enter__(self):
        return self._pool

    def __exit__(self, *_):
        self._answer.set()
        self._pool.terminate()
