"""`benchmarks.gpu` on the CPU, its processes threads: all but what CUDA itself does."""

from contextlib import suppress
from dataclasses import replace
from math import inf
from threading import Thread
from time import perf_counter
from types import SimpleNamespace
from weakref import ref

import numpy as np
import pytest
import torch

from benchmarks import gpu, gpu_cells, gpu_runs
from benchmarks.gpu import (
    DIGIT,
    Measurements,
    find_best_engine,
    list_cells,
    main,
    measure_cells,
    measure_runs,
)
from benchmarks.gpu_cells import Bench, Cell, Timing
from benchmarks.gpu_crew import CONVOLUTIONS, CellFailure, Crew
from benchmarks.gpu_report import format_report
from fedgrid.engine.federation.clients.worker import ClientWorker
from fedgrid.engine.federation.inputs import image_inputs
from fedgrid.engine.federation.models.flat_vectors import FlatModule, build_blank, draw_initial_vector
from fedgrid.grids.planning import estimate
from fedgrid.grids.planning.estimate import Speed


def as_thread(serve, pipe, device):
    def live():
        with pipe, suppress(SystemExit, EOFError, OSError):
            serve(pipe, device)

    thread = Thread(target=live, daemon=True)
    thread.start()
    return thread


FOUR = Cell("digitnet", (1, 8, 8), processes=4)


class Scripted(Bench):
    """Trains nothing: processes share 1,000 images a second, from four on 2,000."""

    def prepare(self, cell):
        if cell.batch == 128:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if cell.way == gpu_cells.GRAPH:
            raise RuntimeError("operation not permitted when stream is capturing")
        self._cell = cell

    def time(self, seconds):
        return Timing(1000 * min(4, self._cell.processes) // self._cell.processes, 1.0, 3_000_000)

    def forget(self):
        pass

    def compare_partition(self, model):
        return True

    def project_hours(self, grid, gains):
        return 2.5


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr("benchmarks.gpu_crew.Bench", Scripted)


@pytest.fixture
def unswept(monkeypatch):
    """Free no cycles after each cell: that looks through all modules of the tests."""
    monkeypatch.setattr(gpu_cells.gc, "collect", lambda: 0)


def measured(cells, end=float("inf")):
    with Crew("cpu", as_thread) as crew:
        return measure_cells(cells, crew, end, 0.0, "cpu")


def test_quick_benchmark_prints_a_table(capsys, tmp_path, unswept):
    main(["--device", "cpu", "--quick", "--out", str(tmp_path / "gpu.md")], as_thread)
    text = capsys.readouterr().out
    assert text == (tmp_path / "gpu.md").read_text()
    assert "the same clusters there as on the CPU" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| digitnet")]
    assert [row[3] for row in rows] == ["as the engine does", "stacked"]
    assert all(float(row[column].replace(",", "")) > 0 for row, column in zip(rows, (4, 5), strict=True))
    assert "`fedgrid run quickstart` on this device alone" in text


def test_without_a_gpu_the_next_step_is_named(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        main([])
    assert "--device cpu --quick" in capsys.readouterr().err


def test_report_names_what_failed_and_what_was_left_out(scripted, monkeypatch):
    class Broken(Scripted):
        def compare_partition(self, model):
            raise RuntimeError("no kernel image is available")

    monkeypatch.setattr("benchmarks.gpu_crew.Bench", Broken)
    large, graph = replace(DIGIT, batch=128), replace(DIGIT, way="CUDA graph")
    with Crew("cpu", as_thread) as crew:
        found = measure_cells([DIGIT, large, graph, FOUR], crew, inf, 0.0, "cpu")
        measure_runs(found, crew, perf_counter() + 60, "paper", "tinyvgg")
        found.left_out = measure_cells([DIGIT], crew, 0.0, 0.0, "cpu").left_out
    assert {cell: sum(each.images for each in timed) for cell, timed in found.cells.items()} == {
        DIGIT: 1000,
        FOUR: 4000,
    }
    assert "not permitted when stream is capturing" in found.failures[graph]
    text = format_report("cpu", found, {}, "paper", 1.0)
    assert "Failed: digitnet, batch 128, float32, as the engine does, 1 process: out of memory." in text
    assert "Failed: whether a run finds the same clusters as on the CPU: RuntimeError: no kernel" in text
    assert "about 2.5 hours" in text
    assert "Left out for want of time: digitnet, batch 32" in text


def test_what_a_failed_cell_held_is_freed_with_its_error_gone(monkeypatch):
    """Else the error's traceback holds the worker, and with it the device's memory."""
    held, alive = [], []

    class Failing(ClientWorker):
        def __init__(self, *given):
            super().__init__(*given)
            held.append(ref(self))

        def train(self, *given):
            raise RuntimeError("no such kernel")

    class Forgetting(Bench):
        def forget(self):
            super().forget()
            alive.append([each() is not None for each in held])

    monkeypatch.setattr("benchmarks.stacked.ClientWorker", Failing)
    monkeypatch.setattr("benchmarks.gpu_crew.Bench", Forgetting)
    with Crew("cpu", as_thread) as crew, pytest.raises(CellFailure, match="no such kernel"):
        crew.measure_cell(replace(DIGIT, way="stacked", clients=3), 0.0, 60.0)
    assert [False] in alive
    assert [True] not in alive


def test_memory_of_a_process_counts_the_libraries_that_its_first_cell_loads(monkeypatch):
    """100 bytes of a context; 400 of libraries and 90 of tensors at the first cell, 70 of which stay."""
    gpu = SimpleNamespace(free=8000)

    class Loading(Scripted):
        def open(self):
            gpu.free -= 100

        def prepare(self, cell):
            assert cell == CONVOLUTIONS
            super().prepare(cell)
            gpu.free -= 400 + 90

        def forget(self):
            gpu.free += 20

        def read_reserved_bytes(self):
            return 70

    monkeypatch.setattr("benchmarks.gpu_crew.Bench", Loading)
    with Crew("cuda", as_thread) as crew:
        assert crew.measure_context(lambda: gpu.free, 60.0) == 100 + 400


def test_device_without_room_for_all_processes_goes_on_with_those_there_were(scripted, monkeypatch):
    opened = []

    class Small(Scripted):
        def open(self):
            opened.append(self)
            if len(opened) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("benchmarks.gpu_crew.Bench", Small)
    two = replace(DIGIT, processes=2)
    found = measured([two, FOUR, replace(two, numbers="TF32")])
    assert found.failures == {FOUR: "out of memory"}
    assert len(found.cells) == 2
    assert len(opened) == 4


def test_cells_end_before_the_last_questions_and_these_within_the_minutes(monkeypatch):
    ends = {}
    monkeypatch.setattr(gpu, "perf_counter", lambda: 1000.0)
    monkeypatch.setattr(gpu, "measure_cells", lambda *given: ends.update(cells=given[2]) or Measurements())
    monkeypatch.setattr(gpu, "measure_runs", lambda *given: ends.update(questions=given[2]))
    gpu.run_benchmark("cpu", 7.0, False, as_thread)
    assert ends == {"cells": 1000 + 420 - 5 - 90, "questions": 1000 + 420 - 5}


def test_process_that_dies_fails_its_cell_only(scripted, monkeypatch):
    def die(self, seconds):
        raise SystemExit

    with Crew("cpu", as_thread) as crew:
        monkeypatch.setattr(Scripted, "time", die)
        dead = measure_cells([FOUR], crew, float("inf"), 0.0, "cpu")
        monkeypatch.undo()
        monkeypatch.setattr("benchmarks.gpu_crew.Bench", Scripted)
        alive = measure_cells([FOUR], crew, float("inf"), 0.0, "cpu")
    assert "died" in dead.failures[FOUR]
    assert FOUR in alive.cells


def test_what_presets_do_comes_first_and_every_way_is_there():
    cells = list_cells()
    assert len(cells) == len(set(cells)) == 2 * 3 * 2 * (3 * 6 + 2)
    assert {(cell.way, cell.numbers, cell.batch) for cell in cells[:4]} == {
        ("as the engine does", "float32", 32)
    }
    assert {(cell.model, cell.processes) for cell in cells[:4]} == {
        (model, count) for model in ("tinyvgg", "resnet34") for count in (1, 15)
    }


def test_best_number_of_processes_is_the_fewest_that_are_nearly_the_fastest(scripted):
    cells = [Cell("digitnet", (1, 8, 8), processes=count) for count in (1, 2, 4, 8)]
    found = measured(cells)
    assert find_best_engine(found, "digitnet") == (cells[2], 4000.0, 1000.0)
    assert find_best_engine(found, "tinyvgg") is None


def test_advised_share_holds_the_processes_and_their_memory(scripted, monkeypatch):
    """Four processes: a quarter of the device. On one of 10 MB, three MB are 30 %."""
    found = measured([DIGIT, FOUR])
    found.hours = 2.5
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: "Stand-in")
    for whole, share in ((1e9, "0.25"), (1e7, "0.3")):
        device = SimpleNamespace(total_memory=whole)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda place, device=device: device)
        text = format_report("cuda", found, {"digitnet": FOUR}, "paper", 1.0)
        assert f"`--gpus-per-actor {share}`" in text
        assert "about 2.5 hours" in text


def test_fastest_stack_is_compared_with_the_best_processes(scripted):
    """Two clients do as much as one process alone, 1,000 images a second, three do 3,000."""
    stacks = [replace(DIGIT, way="stacked", clients=clients) for clients in (2, 3)]
    found = measured([DIGIT, *stacks])
    found.cells[stacks[1]] = [Timing(3000, 1.0, 0)]
    text = format_report("cpu", found, {"digitnet": DIGIT}, "paper", 1.0)
    assert "digitnet: `training.stacked=3` in one process is 3.00 times as fast." in text


def test_hours_are_those_of_one_process_over_the_gain(monkeypatch):
    """The server's seconds stay, all else is halved from one gain to the next."""
    monkeypatch.setattr(estimate, "time_training", lambda load, device: Speed(1e-3, 1e-3))
    one, two, four = (gpu_runs.project_hours("quickstart", "cpu", {"digitnet": gain}) for gain in (1, 2, 4))
    assert one - two == pytest.approx(2 * (two - four))
    assert gpu_runs.project_hours("paper", "cpu", {"tinyvgg": 1.0}) is None


def test_replays_of_a_captured_step_train_every_full_batch():
    """The graph's stand-in notes what it is given; ten images in batches of four are two steps."""
    flat, seen = FlatModule(build_blank("digitnet", image_inputs(1, 8, 8), 10)), []
    inputs, labels = torch.zeros(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)
    graph = SimpleNamespace(replay=lambda: seen.append(labels.tolist()))
    images = torch.zeros(10, 1, 8, 8, dtype=torch.uint8)
    start = draw_initial_vector("digitnet", image_inputs(1, 8, 8), 10, seed=0)
    captured = gpu_cells.CapturedStep(graph, inputs, labels)
    model = gpu_cells._replay_epoch(flat, start, images, torch.arange(10), captured, np.random.default_rng(0))
    np.testing.assert_array_equal(model, start)
    assert len(seen) == 2
    assert len({label for batch in seen for label in batch}) == 8
