"""Shake tests: files, threads and processes are slow at random, so that a hidden race shows.

    python -m pytest -n0 -p tests.chaos.shaken tests/engine/round_cache    (SHAKEN_SEED=1 draws other delays)

A test that passes by itself and fails here asserts an order that nothing enforces.
"""

import builtins
import fcntl
import io
import multiprocessing.process
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import wraps
from random import Random
from time import sleep
from typing import Any

LONGEST = 0.05
"""Seconds of one delay; most are far shorter, since tests make thousands of files."""
SHARE = 0.05
"""Of the calls that are delayed, before and after each."""

_random = Random(int(os.environ.get("SHAKEN_SEED", "0")))


def pytest_configure() -> None:
    """Switch threads as often as can be, and slow down what races are about."""
    sys.setswitchinterval(1e-5)
    for name in ("fsync", "replace", "rename", "link", "unlink", "mkdir"):
        _shake(os, name)
    _shake(fcntl, "flock")
    _shake(subprocess.Popen, "__init__")
    _shake(multiprocessing.process.BaseProcess, "start")
    for name in ("start", "run", "join"):
        _shake(threading.Thread, name)
    _shake(threading.Condition, "wait")
    for place in (builtins, io):
        _shake(place, "open", _opens_for_writing)


def _shake(place: Any, name: str, concerns: Callable[..., bool] = lambda *_, **__: True) -> None:
    """Delay some of the calls, before and after."""
    function = getattr(place, name)

    @wraps(function)
    def shaken(*args: Any, **options: Any) -> Any:
        if not concerns(*args, **options):
            return function(*args, **options)
        _delay()
        try:
            return function(*args, **options)
        finally:
            _delay()

    setattr(place, name, shaken)


def _delay() -> None:
    if _random.random() < SHARE:
        sleep(LONGEST * _random.random() ** 4)


def _opens_for_writing(file: object, mode: str = "r", *_: object, **__: object) -> bool:
    """Return whether a file is there, and empty, before its content is."""
    return mode[0] in "wxa"
