"""The reason why a run stopped: in one line, and as `failed.json` has it."""

from dataclasses import dataclass

from fedgrid.engine.federation.errors import FedgridError, find_plugin_line
from fedgrid.redaction import redact_secrets


@dataclass(frozen=True)
class Failure:
    """The reason why a run failed for good; its fields are those of `failed.json`."""

    cause: str
    """The last error in one line."""
    attempts: int
    """Number of attempts."""


def describe_error(error: Exception) -> str:
    """Describe in one line why a run stopped; for an unexpected error refer to the traceback in the log."""
    cause = redact_secrets(" ".join(str(error).split()))
    if isinstance(error, FedgridError):
        return cause
    return f"{find_plugin_line(error)}{type(error).__name__}: {cause}; see log.txt in its folder"
