"""Why a run stopped: in one line, and as `failed.json` has it."""

from dataclasses import dataclass

from fedgrid.engine.federation.errors import FedgridError, in_plugin
from fedgrid.redaction import redacted


@dataclass(frozen=True)
class Failure:
    """Why a run failed for good."""

    cause: str
    attempts: int


def in_one_line(error: Exception) -> str:
    """Return in one line why a run stopped; for an unexpected error it refers to the traceback in the log."""
    cause = redacted(" ".join(str(error).split()))
    if isinstance(error, FedgridError):
        return cause
    return f"{in_plugin(error)}{type(error).__name__}: {cause}; see log.txt in its folder"
