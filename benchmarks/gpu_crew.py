"""The processes of `benchmarks.gpu`: they share a device, as client actors do, and work at the same time."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import perf_counter
from types import TracebackType
from typing import Any, NoReturn, Self

from benchmarks.gpu_cells import Bench, Cell, Timing
from fedgrid.engine.runtime.clients.gpu_errors import is_out_of_memory

START_SECONDS = 60.0
"""Seconds in which a process imports torch and opens the device."""
STOP_SECONDS = 5.0
"""Seconds in which all processes end."""
CONVOLUTIONS = Cell("tinyvgg", (1, 8, 8), images=64)
"""A small cell that uses cuBLAS and cuDNN."""
DIED = "a process has died, of too little memory perhaps"

Start = Callable[[Callable[..., None], Connection, str], Any]
"""Starts a function with a pipe and a device; returns what has `join`, and `kill` if it can be killed."""


class CellFailure(Exception):
    """A cell has no number; the message gives the reason in a few words."""


def start_process(target: Callable[..., None], pipe: Connection, device: str) -> Any:
    """Start a process of its own, as an actor is one."""
    process = get_context("spawn").Process(target=target, args=(pipe, device), daemon=True)
    process.start()
    # The process has a copy; once that is closed, by its death too, reading from the other end fails.
    pipe.close()
    return process


def serve_orders(pipe: Connection, device: str) -> None:
    """Follow the orders of the pipe: (method of `Bench`, argument), until it sends None."""
    bench = Bench(device)
    pipe.send(_call_method(bench, "open"))
    while (order := pipe.recv()) is not None:
        pipe.send(_call_method(bench, *order))


def _call_method(bench: Bench, name: str, *arguments: object) -> object:
    """Call a method; where this device or version of torch cannot do it, answer with the failure."""
    try:
        return getattr(bench, name)(*arguments)
    except Exception as error:
        failure = CellFailure(_describe_failure(error))
    # Not before the error is gone, which keeps the cell's tensors alive.
    bench.forget()
    return failure


def _describe_failure(error: Exception) -> str:
    """Describe an error in a few words."""
    if is_out_of_memory(error):
        return "out of memory"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"


class Crew:
    """Processes on one device, as many as a cell has needed so far."""

    def __init__(self, device: str, start: Start = start_process, end: float = inf) -> None:
        """Wait for no process longer than until the time `end`."""
        self._device, self._start, self._end = device, start, end
        self._processes: list[tuple[Any, Connection]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_processes()

    def __len__(self) -> int:
        return len(self._processes)

    def measure_cell(self, cell: Cell, seconds: float, timeout: float) -> list[Timing]:
        """Measure a cell in all of its processes at the same time.

        Raises:
            CellFailure: one is out of memory, cannot work like this, has died or takes longer than `timeout`.
        """
        end = perf_counter() + timeout
        self._start_processes(cell.processes, timeout)
        pipes = [pipe for _, pipe in self._processes[: cell.processes]]
        try:
            self._send_order(pipes, end, "prepare", cell)
            return self._send_order(pipes, end, "time", seconds)
        finally:
            # The next cell needs the memory; processes that were killed hold none.
            if self._processes:
                self._send_order(pipes, perf_counter() + START_SECONDS, "forget")

    def measure_context(self, free: Callable[[], int], timeout: float) -> int:
        """Measure the bytes that a process takes on the device in addition to its tensors.

        That is CUDA's context, and cuBLAS, cuDNN and their kernels, which a small cell has it load. No
        process may have been started before.

        Args:
            free: returns the free bytes of the device.
            timeout: seconds.

        Raises:
            CellFailure: as `measure_cell`.
        """
        assert not self._processes, "the first process takes what is measured"
        # The small cell loads the libraries; what torch has reserved for tensors then is no part of them.
        before = free()
        self.measure_cell(CONVOLUTIONS, 0.0, timeout)
        reserved: int = self.run_single("read_reserved_bytes", timeout=timeout)
        return before - free() - reserved

    def run_single(self, *order: object, timeout: float) -> Any:
        """Run an order in one process alone, and return its answer.

        Raises:
            CellFailure: as `measure_cell`.
        """
        self._start_processes(1, timeout)
        [answer] = self._send_order([self._processes[0][1]], perf_counter() + timeout, *order)
        return answer

    def end_processes(self) -> None:
        """End all processes, within `STOP_SECONDS`."""
        processes, self._processes = self._processes, []
        end = perf_counter() + STOP_SECONDS
        for _, pipe in processes:
            # One that has died needs no order.
            with suppress(OSError):
                pipe.send(None)
        for process, _ in processes:
            process.join(max(0.0, end - perf_counter()))
            if process.is_alive() and hasattr(process, "kill"):
                process.kill()

    def _start_processes(self, count: int, timeout: float) -> None:
        """Start processes until there are `count`."""
        before = len(self)
        while len(self) < count:
            ours, theirs = get_context("spawn").Pipe()
            self._processes.append((self._start(serve_orders, theirs, self._device), ours))
        new = [pipe for _, pipe in self._processes[before:]]
        try:
            self._receive_answers(new, perf_counter() + max(timeout, START_SECONDS))
        except CellFailure:
            # The device has no room for this many: those that there were go on.
            self._kill_processes(self._processes[before:])
            del self._processes[before:]
            raise

    def _send_order(self, pipes: Sequence[Connection], end: float, *order: object) -> list[Any]:
        """Send an order to all of these processes, and wait for their answers."""
        for pipe in pipes:
            try:
                pipe.send(order)
            except OSError:
                self._abort_cell(DIED)
        return self._receive_answers(pipes, end)

    def _receive_answers(self, pipes: Sequence[Connection], end: float) -> list[Any]:
        """Wait for an answer of each process, until the time `end`."""
        # The whole benchmark must end in time, whatever a cell may take.
        end = min(end, self._end)
        answers: dict[Connection, Any] = {}
        while len(answers) < len(pipes):
            ready = wait([pipe for pipe in pipes if pipe not in answers], max(0.0, end - perf_counter()))
            if not ready:
                self._abort_cell("no answer in time")
            for pipe in ready:
                assert isinstance(pipe, Connection)
                try:
                    answers[pipe] = pipe.recv()
                except (EOFError, OSError):
                    self._abort_cell(DIED)
        failures = [answer for answer in answers.values() if isinstance(answer, CellFailure)]
        if failures:
            raise failures[0]
        return [answers[pipe] for pipe in pipes]

    def _abort_cell(self, reason: str) -> NoReturn:
        """End all processes, of which the next cell starts new ones, and give the cell up."""
        processes, self._processes = self._processes, []
        self._kill_processes(processes)
        raise CellFailure(reason)

    @staticmethod
    def _kill_processes(processes: Sequence[tuple[Any, Connection]]) -> None:
        for process, _ in processes:
            if hasattr(process, "kill"):
                process.kill()
