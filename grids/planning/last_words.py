"""Says what to do when this process dies without a word, as Ray ends a driver that has lost its raylet."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

SAYS = (
    "fedgrid: this process was killed, by the system or by Ray, which lost its raylet (out of memory?); "
    "nothing is lost: the same command continues"
)
GUARD = ("sh", "-c", 'read -r word || printf "%s\\n" "$1" >&2', "sh")
"""Waits for a line. Its standard input closes without one when the parent dies."""


@contextmanager
def last_words() -> Iterator[None]:
    """Let a line on standard error say what to do if this process dies within the block.

    The guard is in a process group of its own, which Ctrl-C does not reach.
    """
    with subprocess.Popen(
        (*GUARD, SAYS), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, process_group=0
    ) as guard:
        try:
            yield
        finally:
            guard.communicate("ended\n")
