"""The processes of `benchmarks.gpu`: they share a device, as client actors do, and work at the same time."""

from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import torch

from benchmarks.gpu_cells import Bench, Cell, Timed

START_SECONDS = 60.0
"""For a process to import torch and open the device."""
LEAVE_SECONDS = 5.0

Start = Callable[[Callable[..., None], Connection, str], Any]
"""Starts a function with a pipe and a device; returns what has `join`, and `kill` if it can be killed."""


class CellFailed(Exception):
    """A cell has no number; the message says why in a few words."""


def as_process(serve: Callable[..., None], pipe: Connection, device: str) -> Any:
    """Start a process of its own, as an actor is one."""
    process = get_context("spawn").Process(target=serve, args=(pipe, device), daemon=True)
    process.start()
    # The process has a copy; once that is closed, by its death too, reading from the other end fails.
    pipe.close()
    return process


def serve(pipe: Connection, device: str) -> None:
    """Follow the orders of the pipe: (method of `Bench`, argument), until it says None."""
    if device != "cpu":
        torch.zeros(1, device=device)
    bench = Bench(device)
    pipe.send("up")
    while (order := pipe.recv()) is not None:
        name, *arguments = order
        try:
            answer = getattr(bench, name)(*arguments)
        except torch.OutOfMemoryError:
            bench.forget()
            answer = CellFailed("out of memory")
        except RuntimeError as error:
            # A way that this device or version of torch cannot go: the other cells count.
            bench.forget()
            answer = CellFailed(f"{type(error).__name__}: {' '.join(str(error).split())[:80]}")
        pipe.send(answer)


class Crew:
    """Processes on one device, as many as a cell has needed so far."""

    def __init__(self, device: str, start: Start = as_process) -> None:
        self._device, self._start = device, start
        self._members: list[tuple[Any, Connection]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.dismiss()

    def __len__(self) -> int:
        return len(self._members)

    def measure(self, cell: Cell, seconds: float, timeout: float) -> list[Timed]:
        """Return what each process of a cell has measured, all at the same time.

        Raises:
            CellFailed: one is out of memory, cannot work like this, has died or takes longer than `timeout`.
        """
        end = perf_counter() + timeout
        self.grow(cell.processes, timeout)
        pipes = [pipe for _, pipe in self._members[: cell.processes]]
        try:
            self._ask(pipes, end, "prepare", cell)
            return self._ask(pipes, end, "time", seconds)
        finally:
            if self._members:
                self._ask(pipes, perf_counter() + START_SECONDS, "forget")

    def grow(self, count: int, timeout: float = START_SECONDS) -> None:
        """Start processes until there are `count`."""
        new = []
        while len(self) < count:
            ours, theirs = get_context("spawn").Pipe()
            self._members.append((self._start(serve, theirs, self._device), ours))
            new.append(ours)
        self._answers(new, perf_counter() + max(timeout, START_SECONDS))

    def dismiss(self) -> None:
        """End all processes."""
        members, self._members = self._members, []
        for _, pipe in members:
            try:
                pipe.send(None)
            except OSError:
                continue
        for member, _ in members:
            member.join(LEAVE_SECONDS)
            if member.is_alive() and hasattr(member, "kill"):
                member.kill()

    def _ask(self, pipes: Sequence[Connection], end: float, *order: object) -> list[Any]:
        for pipe in pipes:
            pipe.send(order)
        return self._answers(pipes, end)

    def _answers(self, pipes: Sequence[Connection], end: float) -> list[Any]:
        answers: dict[Connection, Any] = {}
        while len(answers) < len(pipes):
            ready = wait([pipe for pipe in pipes if pipe not in answers], max(0.0, end - perf_counter()))
            if not ready:
                self._abandon("no answer in time")
            for pipe in ready:
                assert isinstance(pipe, Connection)
                try:
                    answers[pipe] = pipe.recv()
                except (EOFError, OSError):
                    self._abandon("a process has died, of too little memory perhaps")
        failures = [answer for answer in answers.values() if isinstance(answer, CellFailed)]
        if failures:
            raise failures[0]
        return [answers[pipe] for pipe in pipes]

    def _abandon(self, why: str) -> None:
        """End all processes, of which the next cell starts new ones."""
        members, self._members = self._members, []
        for member, _ in members:
            if hasattr(member, "kill"):
                member.kill()
        raise CellFailed(why)
