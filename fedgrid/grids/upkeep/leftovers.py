"""Ray's processes that a killed driver has left behind on this machine."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
SERVERS = ("gcs_server", "raylet")
"""Ray's processes that start the others, which end with them."""
INITS = (1,)
"""Parents of processes that have lost theirs."""
ADOPTERS = ("systemd", "init", "tini", "dumb-init")


@dataclass(frozen=True)
class Process:
    """One of this user's."""

    pid: int
    name: str
    parent: int
    hours: float
    """Since its start."""

    @property
    def is_orphan(self) -> bool:
        """Whether the process that started it has ended."""
        return self.parent in INITS or _name(self.parent) in ADOPTERS

    def __str__(self) -> str:
        age = f"{self.hours:.0f} h" if self.hours >= 1 else f"{60 * self.hours:.0f} min"
        return f"{self.name} {self.pid}, {age} old"


def ray_servers() -> list[Process]:
    """Return this user's, in the order of their numbers; none where there is no /proc."""
    return sorted(_ray_servers(), key=lambda process: process.pid)


def _ray_servers() -> Iterator[Process]:
    for folder in PROC.glob("[0-9]*"):
        try:
            if folder.stat().st_uid != os.getuid() or _name(int(folder.name)) not in SERVERS:
                continue
            yield _process(folder)
        except (FileNotFoundError, ProcessLookupError):
            continue


def _process(folder: Path) -> Process:
    fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    ticks = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    up = float((PROC / "uptime").read_text().split()[0])
    pid = int(folder.name)
    return Process(pid, _name(pid), int(fields[1]), max(0.0, up - ticks) / 3600)


def _name(pid: int) -> str:
    """Return the name of a process's program, empty if it has ended."""
    try:
        return (PROC / str(pid) / "comm").read_text(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
