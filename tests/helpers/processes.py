"""Find the processes that a driver has started, and wait until they have ended."""

import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

END_SECONDS, SERVER_SECONDS = 60.0, 180.0
LISTENS = "0A"
"""The state of a socket that listens."""
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F")
"""127.0.0.1, and the same as an address of IPv6."""
TITLES = {
    "server": ("ray::ServerTrainable", "ray::ResourceTrainable"),
    "client": ("ray::Client",),
    "raylet": ("raylet/raylet",),
}
"""Kind of process -> what its command line has. A server at work has the name of a class of Tune's."""


def list_processes(driver: int) -> dict[int, str]:
    """List pid -> command line of everything that descends from the driver."""
    parents, titles = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text().rpartition(")")[2].split()
            titles[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ").strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(path.name)] = int(stat[1])

    def is_descendant(pid: int) -> bool:
        while pid in parents and pid != driver:
            pid = parents[pid]
        return pid == driver

    return {pid: title for pid, title in titles.items() if pid != driver and is_descendant(pid)}


def select_kind(kind: str, titles: Mapping[int, str]) -> list[int]:
    """Select those of `list_processes` that are of a kind of `TITLES`."""
    return sorted(pid for pid, title in titles.items() if any(mark in title for mark in TITLES[kind]))


def list_listeners(pids: Iterable[int]) -> list[str]:
    """List the addresses, in the kernel's hexadecimal, on which these processes accept TCP connections."""
    held = {inode for pid in pids for inode in _list_sockets(pid)}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return [row[1].partition(":")[0] for row in rows if row[3] == LISTENS and row[9] in held]


def _list_sockets(pid: int) -> Iterator[str]:
    """Yield the inodes of a process's sockets."""
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(FileNotFoundError):
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(path))
            if match:
                yield match[1]


def wait_until_ended(pids: Iterable[int]) -> None:
    """Wait until all of these processes have ended."""
    deadline = monotonic() + END_SECONDS
    left = set(pids)
    while left := {pid for pid in left if _is_running(pid)}:
        assert monotonic() < deadline, f"processes {sorted(left)} go on"
        sleep(0.05)


def wait_until_served(address: str) -> None:
    """Wait until an MLflow server answers."""
    deadline = monotonic() + SERVER_SECONDS
    while True:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError):
            assert monotonic() < deadline, f"nothing answers at {address}"
            sleep(0.2)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state not in "ZX"
