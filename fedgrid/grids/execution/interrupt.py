"""Ctrl-C: once stops after the rounds under way, twice stops at once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


@contextmanager
def graceful(ask_to_stop: Callable[[], None]) -> Iterator[None]:
    """Call `ask_to_stop` at the first SIGINT or SIGTERM; the second raises KeyboardInterrupt.

    Only the main thread may handle signals: in another one nothing changes.
    """
    if current_thread() is not main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, _interrupt)
        ask_to_stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
