"""Measuring a client's memory: real training on the CPU, with stand-ins for what `torch.cuda` says."""

from multiprocessing.pool import ThreadPool
from threading import Event

import pytest
import torch

from fedgrid.engine.federation.errors import ConfigError, RunError
from fedgrid.engine.federation.training.settings import LocalTraining
from fedgrid.grids.planning import gpu_probe as probe
from fedgrid.grids.planning.gpu_probe import Taken, Workload, measure

SETTINGS = LocalTraining(local_epochs=3, batch_size=4, optimizer="adam", learning_rate=0.01)
DIGITS = Workload("digitnet", (1, 8, 8), 10, SETTINGS)
CONTEXT, RESERVED, TOTAL = 500, 70, 8000


class Gpu:
    """A GPU of 8,000 bytes: 1,000 of another process, 300 of the outer one, 500 and tensors of the inner."""

    def __init__(self, monkeypatch):
        self.inner, self.peaks = 0, []
        for name in ("mem_get_info", "empty_cache", "reset_peak_memory_stats", "memory_reserved"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "max_memory_reserved", self.max_memory_reserved)

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


def test_context_is_what_the_gpu_has_lost_but_for_tensors(gpu):
    stacked = Workload("digitnet", (1, 8, 8), 10, SETTINGS.model_copy(update={"stacked": 3}))
    assert measure([DIGITS, stacked], "cpu", ThreadPool) == Taken(TOTAL, CONTEXT, (100, 200))


def test_workload_that_does_not_fit_is_told_and_the_next_one_measured(gpu, monkeypatch):
    def work(workload, device):
        if workload is DIGITS:
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(probe, "work_once", work)
    other = Workload("lenet5", (1, 28, 28), 10, SETTINGS)
    assert measure([DIGITS, other], "cpu", ThreadPool).reserved == (None, 200)


def test_training_that_runs_out_of_memory_is_told_though_the_worker_wraps_its_error(gpu, monkeypatch):
    def train(*given, **settings):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("fedgrid.engine.federation.training.local.train", train)
    assert measure([DIGITS], "cpu", ThreadPool).reserved == (None,)


def test_another_error_of_training_is_no_lack_of_memory(gpu, monkeypatch):
    def train(*given, **settings):
        raise RuntimeError("CUDA error: no kernel image is available")

    monkeypatch.setattr("fedgrid.engine.federation.training.local.train", train)
    with pytest.raises(RunError, match="no kernel image"):
        measure([DIGITS], "cpu", ThreadPool)


def test_a_whole_batch_is_trained_and_a_whole_one_tested(monkeypatch):
    """What decides the peak; the number of epochs does not."""
    seen = []
    real_train, real_test = probe.ClientWorker.train, probe.ClientWorker.evaluate

    def train(self, *given):
        replies = real_train(self, *given)
        seen.extend((reply.report.images, reply.report.steps) for reply in replies)
        return replies

    def evaluate(self, *given):
        [report] = real_test(self, *given)
        seen.append((int(report.own.confusion.sum()), int(report.server[0].confusion.sum())))
        return [report]

    monkeypatch.setattr(probe.ClientWorker, "train", train)
    monkeypatch.setattr(probe.ClientWorker, "evaluate", evaluate)
    normalised = SETTINGS.model_copy(update={"normalise": "dataset"})
    probe.work_once(Workload("digitnet", (1, 8, 8), 10, normalised), "cpu")
    assert seen == [(4, 1), (128, 128)]


def test_wrong_settings_are_the_same_error_as_in_training(gpu, monkeypatch):
    def refuse(workload, device):
        raise ConfigError("training.batch_size=1 does not work with a model that has BatchNorm")

    monkeypatch.setattr(probe, "work_once", refuse)
    with pytest.raises(ConfigError, match="batch_size=1"):
        measure([DIGITS], "cpu", ThreadPool)


def test_process_that_cannot_open_the_gpu_is_told_in_a_line(gpu, monkeypatch):
    """In exclusive mode the outer process has it: a plan for an actor a GPU goes on without measuring."""

    def fail(workload, device):
        raise RuntimeError("CUDA error: devices are busy or unavailable\nFor debugging consider")

    monkeypatch.setattr(probe, "work_once", fail)
    with pytest.raises(RunError, match=r"failed \(CUDA error: devices are busy or unavailable\)$"):
        measure([DIGITS], "cpu", ThreadPool)


def test_process_that_does_not_answer_is_told(gpu, monkeypatch):
    answer = Event()
    monkeypatch.setattr(probe, "TIMEOUT", 0.0)
    monkeypatch.setattr(probe, "work_once", lambda workload, device: answer.wait())
    with pytest.raises(RunError, match="took more than 0 s, or its process died"):
        measure([DIGITS], "cpu", Answering(answer))


class Answering:
    """Makes a pool whose task ends with the pool, so that no thread stays."""

    def __init__(self, answer):
        self._answer = answer

    def __call__(self, size):
        self._pool = ThreadPool(size)
        return self

    def __enter__(self):
        return self._pool

    def __exit__(self, *_):
        self._answer.set()
        self._pool.terminate()
