"""A process that dies without a word leaves a line that says what to do."""

import signal
import subprocess
import sys

import pytest

BLOCK = """
import os, signal
from fedgrid.grids.planning.last_words import last_words
with last_words():
    {inside}
print("after")
"""


def stderr_of(inside):
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.format(inside=inside)], capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("inside", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os._exit(1)", 1),
        ("os.abort()", -signal.SIGABRT),
    ],
)
def test_death_without_a_word_leaves_one_line(inside, code):
    ended, err = stderr_of(inside)
    assert (ended, err.count("\n")) == (code, 1)
    assert "the same command continues" in err


def test_block_that_ends_leaves_nothing():
    assert stderr_of("pass") == (0, "")


def test_error_and_interruption_have_words_of_their_own():
    for error in ("KeyboardInterrupt", "ValueError"):
        _, err = stderr_of(f"raise {error}")
        assert error in err
        assert "same command" not in err
