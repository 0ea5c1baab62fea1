"""Ray's processes that a killed driver has left behind on this machine."""

import os
from collections.abc import Mapping
from pathlib import Path

PROC = Path("/proc")
SERVERS = ("gcs_server", "raylet")
"""Ray's processes that start the others, which end with them."""
ADOPTERS = ("systemd", "init", "tini", "dumb-init")
"""Programs that become the parents of processes that have lost theirs, beside process 1."""


def ray_servers() -> Mapping[int, tuple[str, bool]]:
    """Return this user's: number -> name, and whether the process that started it has ended.

    Empty where there is no /proc.
    """
    servers = {}
    for folder in PROC.glob("[0-9]*"):
        about = _status(int(folder.name))
        if about.get("Name") in SERVERS and about["Uid"].split()[0] == str(os.getuid()):
            parent = int(about["PPid"])
            is_orphan = parent == 1 or _status(parent).get("Name") in ADOPTERS
            servers[int(folder.name)] = about["Name"], is_orphan
    return dict(sorted(servers.items()))


def _status(process: int) -> Mapping[str, str]:
    """Return what the kernel tells of a process, empty if it has ended."""
    try:
        lines = (PROC / str(process) / "status").read_text(errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
