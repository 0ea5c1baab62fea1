"""Commands that messages name, in a form that can be copied."""

import os
import shlex
from contextlib import suppress

from fedgrid.engine.federation.errors import ConfigError
from fedgrid.engine.runtime.storage.storage import Storage

USUAL = "runs"
"""Storage of a command without `--storage`."""
VARIABLE = "FEDGRID_STORAGE"
"""Environment variable that names another one."""


def format_command(storage: Storage, *words: str) -> str:
    """Format a `fedgrid` command with these words, for a message.

    `--storage` is added if the command would open another storage without it.
    """
    at = ["--storage", str(storage)]
    with suppress(ConfigError):
        usual = Storage.from_text(os.environ.get(VARIABLE) or USUAL)
        if (usual.root, usual.uri) == (storage.root, storage.uri):
            at = []
    return shlex.join(["fedgrid", *words, *at])


def explain_missing_grid(storage: Storage, what: str) -> str:
    """Explain that a storage has no grid, and what to do about it; `what` is a grid that could be run."""
    return (
        f"no grid in {storage}; if it is in another folder, name that with --storage; "
        f"`{format_command(storage, 'run', what)}` starts one"
    )
