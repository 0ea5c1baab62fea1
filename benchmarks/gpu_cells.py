"""The cells of `benchmarks.gpu`: a client trains again and again in one process, in one of several ways."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks import gpu_runs
from benchmarks.stacked import build_worker
from benchmarks.training import CLASSES, build_flat_model, make_images
from fedgrid.algorithms.contract.orders import Order
from fedgrid.engine.federation.clients.messages import TrainTask
from fedgrid.engine.federation.clients.process import fix_numerics
from fedgrid.engine.federation.inputs import Inputs
from fedgrid.engine.federation.models.flat_vectors import FlatModule, draw_initial_vector
from fedgrid.engine.federation.models.normalisation import MixedPrecision
from fedgrid.engine.federation.training.evaluation import convert_to_inputs
from fedgrid.engine.federation.training.local import train_client
from fedgrid.engine.federation.training.settings import LocalTraining, Precision

Numbers = Literal["float32", "TF32", "bfloat16"]
Way = Literal["as the engine does", "CUDA graph", "torch.compile", "stacked"]
ENGINE: Way = "as the engine does"
GRAPH: Way = "CUDA graph"
COMPILE: Way = "torch.compile"
STACKED: Way = "stacked"
RATE = 0.01
GB = 1e9


@dataclass(frozen=True)
class Cell:
    """A model, its numbers and batch, and how many clients train it in how many processes."""

    model: str
    shape: tuple[int, int, int]
    """Channels, height, width of an image."""
    numbers: Numbers = "float32"
    batch: int = 32
    way: Way = "as the engine does"
    processes: int = 1
    clients: int = 1
    """Clients in a process; more than one are stacked."""
    images: int = 512
    """Images of a client."""

    @property
    def precision(self) -> Precision:
        """The cell's value of `training.precision`."""
        return "bfloat16" if self.numbers == "bfloat16" else "float32"

    def __str__(self) -> str:
        many = f"{self.processes} process{'es' * (self.processes > 1)}"
        clients = many if self.clients == 1 else f"{self.clients} clients"
        return f"{self.model}, batch {self.batch}, {self.numbers}, {self.way}, {clients}"


@dataclass(frozen=True)
class Timing:
    """Images that one process has trained, its seconds, and its memory."""

    images: int
    seconds: float
    memory: int
    """Bytes that torch has reserved on the device; 0 on a CPU."""


def build_work(cell: Cell, device: str) -> Callable[[], object]:
    """Build a function that trains all images of the cell's clients once, from the same model."""
    if cell.way == STACKED:
        task = [TrainTask(Order(client, (0,)), 0, evaluate=False) for client in range(cell.clients)]
        start = draw_initial_vector(cell.model, Inputs("pixels", cell.shape), CLASSES, seed=0)
        held = build_worker(cell.model, cell.shape, cell.clients, cell.images, build_settings(cell), device)
        return partial(held.train, task, [start], {})

    def wrap_module(module: nn.Module) -> nn.Module:
        return MixedPrecision(module, device) if cell.precision == "bfloat16" else module

    flat, start = build_flat_model(cell.model, cell.shape, wrap_module, device)
    images, labels = make_images(cell.shape, cell.images, device)
    if cell.way == GRAPH:
        generator = np.random.default_rng(0)
        return partial(
            _replay_epoch, flat, start, images, labels, _capture_step(flat, cell, device), generator
        )
    if cell.way == COMPILE:
        flat.module = cast(nn.Module, torch.compile(flat.module))
    generator = np.random.default_rng(1)
    return lambda: train_client(flat, start, images, labels, build_settings(cell), generator)


def build_settings(cell: Cell) -> LocalTraining:
    """Build the settings of an epoch of plain SGD in the cell's batches and numbers."""
    return LocalTraining(
        local_epochs=1,
        batch_size=cell.batch,
        optimizer="sgd",
        learning_rate=RATE,
        tf32=cell.numbers == "TF32",
        precision=cell.precision,
        stacked=cell.clients,
    )


@dataclass(frozen=True)
class CapturedStep:
    """A training step as a CUDA graph, and the tensors from which it takes its batch."""

    graph: torch.cuda.CUDAGraph
    inputs: Tensor
    labels: Tensor


def _capture_step(flat: FlatModule, cell: Cell, device: str) -> CapturedStep:
    """Capture a step of plain SGD, on zeros in place of a batch."""
    inputs = torch.zeros(cell.batch, *cell.shape, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.zeros(cell.batch, dtype=torch.int64, device=device)
    flat.module.train()

    def train_step() -> None:
        flat.gradient.zero_()
        torch.autograd.backward(functional.cross_entropy(flat.module(inputs), labels))
        flat.weights.add_(flat.gradient, alpha=-RATE)

    # Libraries initialise in the first calls, which must not be captured; nor on the default stream.
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            train_step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train_step()
    return CapturedStep(graph, inputs, labels)


def _replay_epoch(
    flat: FlatModule,
    start: np.ndarray,
    images: Tensor,
    labels: Tensor,
    captured: CapturedStep,
    rng: np.random.Generator,
) -> np.ndarray:
    """Train an epoch as `local.train_client` does, each step a replay of the graph."""
    flat.write_vector(start)
    size = len(captured.labels)
    order = torch.from_numpy(rng.permutation(len(labels))).to(labels.device)
    inputs, targets = convert_to_inputs(images[order]), labels[order]
    # A graph has one size of batch: images of a last, smaller one are left out.
    for begin in range(0, len(labels) - size + 1, size):
        captured.inputs.copy_(inputs[begin : begin + size])
        captured.labels.copy_(targets[begin : begin + size])
        captured.graph.replay()
    return flat.read_vector()


class Bench:
    """The side of a cell that runs in one of its processes; `Crew` calls its methods by name."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._work: Callable[[], object] | None = None
        self._cell: Cell | None = None

    def open(self) -> None:
        """Open the device. Called once, when the process has started."""
        if self._device != "cpu":
            torch.zeros(1, device=self._device)

    def prepare(self, cell: Cell) -> None:
        """Get a cell ready and do its work once: libraries choose their kernels in the first call."""
        self.forget()
        if self._device != "cpu":
            torch.cuda.reset_peak_memory_stats()
        self._cell = cell
        with fix_numerics(cell.numbers == "TF32"):
            work = build_work(cell, self._device)
            work()
        self._work = work

    def time(self, seconds: float) -> Timing:
        """Do the cell's work again and again for this many seconds, at least once."""
        assert self._work is not None, "prepare() comes first"
        assert self._cell is not None
        done, started = 0, perf_counter()
        with fix_numerics(self._cell.numbers == "TF32"):
            # Training returns a vector in main memory, so that each turn waits for the device.
            while not done or perf_counter() - started < seconds:
                self._work()
                done += 1
        elapsed = perf_counter() - started
        memory = 0 if self._device == "cpu" else torch.cuda.max_memory_reserved()
        return Timing(done * self._cell.images * self._cell.clients, elapsed, memory)

    def forget(self) -> None:
        """Free what the cell holds."""
        self._work = None
        gc.collect()
        if self._device != "cpu":
            torch.cuda.empty_cache()

    def read_reserved_bytes(self) -> int:
        """Read how many bytes torch has reserved on the device now; 0 on a CPU."""
        return 0 if self._device == "cpu" else torch.cuda.memory_reserved()

    def compare_partition(self, model: str) -> bool:
        """Check whether a run on the device clusters its clients in each round as on the CPU."""
        return gpu_runs.is_same_partition(self._device, model)

    def project_hours(self, grid: str, gains: Mapping[str, float]) -> float | None:
        """Project the hours of a preset (`gpu_runs.project_hours`)."""
        return gpu_runs.project_hours(grid, self._device, gains)
