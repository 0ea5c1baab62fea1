"""Errors of a GPU: the line that names the cause, and the setting if memory has run out."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fedgrid.engine.federation.errors import RunError

RAISED = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
"""A traceback's line that names the error; CUDA's messages go on below it with advice for its developers."""
PASSING = ("out of memory", "busy or unavailable")
"""Parts of CUDA's messages of errors that another process causes."""


def extract_first_sentence(error: BaseException) -> str:
    """Extract the first sentence of an error's message: the cause, without links and advice."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].partition(". ")[0].rstrip(".")


def find_last_error(traceback: str) -> str:
    """Find the line of a traceback's text that names its last error."""
    errors = RAISED.findall(traceback)
    kind, message = errors[-1] if errors else ("", traceback.strip().splitlines()[-1])
    return f"{kind}: {message}".removeprefix(": ").partition(". ")[0].rstrip(".")


def may_pass(cause: str) -> bool:
    """Check whether an error of a GPU may be gone once other processes are."""
    return any(part in cause for part in PASSING)


def is_out_of_memory(error: BaseException) -> bool:
    """Check whether an error is, or was caused by, a GPU's memory that has run out."""
    import torch

    return any(isinstance(cause, torch.OutOfMemoryError) for cause in _iterate_causes(error))


@contextmanager
def name_share(share: float) -> Iterator[None]:
    """Name the setting where the GPU's memory runs out in the block; `share` is that of this process.

    Raises:
        RunError: it does, with the option that would give more.
    """
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        more = f"--gpus-per-actor {min(1.0, 2 * share):g} gives more, " if share < 1 else ""
        raise RunError(
            f"{extract_first_sentence(error)}; the actor has {share:g} of its GPU: {more}a smaller "
            "training.batch_size or "
            "training.precision=bfloat16 takes less"
        ) from error


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it, as `raise ... from` says."""
    while error is not None:
        yield error
        error = error.__cause__
