"""Who a process is, and whether it is still there: what leases and claims are made out to."""

import os
from pathlib import Path


def machine() -> str:
    """Return what tells this boot and process namespace from others; empty where there is no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def is_gone(pid: int, started: str) -> bool:
    """Return whether the process of this machine that has this number is no more.

    `started` is what `start_time` said of it: a number may be another process's by now.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        # Another user's, of which we may be told no more.
        return False
    return start_time(pid) != started


def start_time(pid: int) -> str:
    """Return when a process started; empty if it has ended, or where there is no /proc."""
    try:
        # The name in it is cut at 15 bytes, amid a character too.
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    fields = text.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return "" if state in "ZX" else started
