"""Errors that a user can act on: each message says what was given, what is allowed and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class FedgridError(Exception):
    """Anything that is reported in one line, without a traceback."""


class ConfigError(FedgridError, ValueError):
    """The user asked for something that does not exist or cannot be."""


class DataError(FedgridError):
    """Images are missing, damaged or do not fit together."""


class RunError(FedgridError):
    """A run stopped: its message starts with the client, the round and the cause."""


def unknown(kind: str, given: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a name that is not in a registry, with the nearest known name."""
    known = list(known)
    near = get_close_matches(given, known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return ConfigError(f"unknown {kind} '{given}'; {hint}known: {', '.join(known)}")
