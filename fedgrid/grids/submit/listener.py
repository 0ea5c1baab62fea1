"""Which process listens on a port of this machine's loopback address, as the kernel says (Linux)."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
LOOPBACK, ANY = "0100007F", "00000000"
"""127.0.0.1 and 0.0.0.0, in the kernel's notation on a little-endian machine."""
LISTENS = "0A"
SSH = "ssh"


def is_held_by(port: int, group: int) -> bool:
    """Return whether a port of 127.0.0.1 is held by a process of a group, or by an ssh of this user.

    Ray lets several commands share one ssh, which is then in no group of ours. Where there is no /proc, the
    answer is yes.
    """
    if not (PROC / "net" / "tcp").exists():
        return True
    wanted = {f"socket:[{inode}]" for inode in _sockets(port)}
    return any(wanted & _open_files(pid) for pid in _processes() if _group(pid) == group or _is_own_ssh(pid))


def _sockets(port: int) -> list[str]:
    """Return the sockets that listen on a port of 127.0.0.1, else those on the port of every address."""
    rows = [line.split() for line in (PROC / "net" / "tcp").read_text().splitlines()[1:]]
    found: dict[str, list[str]] = {LOOPBACK: [], ANY: []}
    for row in rows:
        address, _, number = row[1].partition(":")
        if row[3] == LISTENS and int(number, 16) == port and address in found:
            found[address].append(row[9])
    return found[LOOPBACK] or found[ANY]


def _processes() -> Iterator[int]:
    return (int(path.name) for path in PROC.iterdir() if path.name.isdecimal())


def _open_files(pid: int) -> set[str]:
    """Return what a process has open, as far as this user may know."""
    found = set()
    with suppress(OSError):
        for path in (PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                found.add(os.readlink(path))
    return found


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _is_own_ssh(pid: int) -> bool:
    try:
        folder = PROC / str(pid)
        return folder.stat().st_uid == os.getuid() and (folder / "comm").read_text().strip() == SSH
    except OSError:
        return False
