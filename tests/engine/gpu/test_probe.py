"""Measuring a client's memory: real training on the CPU, with stand-ins for what `torch.cuda` says."""

from contextlib import suppress
from threading import Thread

import pytest
import torch

from fedgrid.engine.errors import ConfigError, RunError
from fedgrid.engine.gpu import probe
from fedgrid.engine.gpu.probe import Taken, Workload, measure
from fedgrid.engine.training.settings import LocalTraining

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


def as_thread(function, pipe, workloads, device):
    def live():
        with suppress(SystemExit):
            function(pipe, workloads, device)

    thread = Thread(target=live, daemon=True)
    thread.start()
    return thread


def test_context_is_what_the_gpu_has_lost_but_for_tensors(gpu):
    stacked = Workload("digitnet", (1, 8, 8), 10, SETTINGS.model_copy(update={"stacked": 3}))
    assert measure([DIGITS, stacked], "cpu", as_thread) == Taken(TOTAL, CONTEXT, (100, 200))


def test_workload_that_does_not_fit_is_told_and_the_next_one_measured(gpu, monkeypatch):
    def work(workload, device):
        if workload is DIGITS:
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(probe, "work_once", work)
    other = Workload("lenet5", (1, 28, 28), 10, SETTINGS)
    assert measure([DIGITS, other], "cpu", as_thread).reserved == (None, 200)


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
        seen.append((int(report.own.confusion.sum()), int(report.server_parts[0].confusion.sum())))
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
        measure([DIGITS], "cpu", as_thread)


def test_process_that_dies_is_told(gpu, monkeypatch):
    def die(workload, device):
        raise SystemExit

    monkeypatch.setattr(probe, "work_once", die)
    with pytest.raises(RunError, match="has died"):
        measure([DIGITS], "cpu", as_thread)


def test_process_that_does_not_answer_is_killed(gpu, monkeypatch):
    class Hanging:
        killed = False

        def join(self, timeout):
            assert timeout == probe.END_TIMEOUT

        def is_alive(self):
            return True

        def kill(self):
            self.killed = True

    monkeypatch.setattr(probe, "TIMEOUT", 0.0)
    process = Hanging()
    with pytest.raises(RunError, match="took more than 0 s"):
        measure([DIGITS], "cpu", lambda *arguments: process)
    assert process.killed
