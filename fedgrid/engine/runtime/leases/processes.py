"""The identity of a process across machines and restarts, and whether it has ended."""

import os
from collections.abc import Mapping
from pathlib import Path
from platform import node
from pwd import getpwuid
from typing import Any

NEW_OBJECTS = 50_000
"""New objects after which Python looks for garbage (`gc.set_threshold`), instead of 700.

The imports of a run make a million objects that stay; to look at them again and again took a second.
"""


def identify_process() -> dict[str, Any]:
    """Collect what identifies this process, for a file that other processes read.

    `host` and `identify_boot` say where it runs: only there does its number `pid` mean anything. `started` is
    the kernel's start time, because the kernel gives numbers to new processes again.
    """
    return {
        "host": node(),
        "machine": identify_boot(),
        "pid": os.getpid(),
        "started": read_start_time(os.getpid()),
    }


def has_ended(process: Mapping[str, object]) -> bool | None:
    """Check whether a process has ended, from its `identify_process`; None if that cannot be decided here.

    It cannot if the process ran on another machine or in another process namespace, or before a restart, or
    if the identity is incomplete.
    """
    pid, started = process.get("pid"), process.get("started")
    if not is_here(process):
        return None
    return is_gone(pid, started) if isinstance(pid, int) and isinstance(started, str) else None


def is_here(process: Mapping[str, object]) -> bool:
    """Check whether an `identify_process` is of this machine, since its last start, and of this namespace."""
    return (process.get("host"), process.get("machine")) == (node(), identify_boot())


def identify_boot() -> str:
    """Read an id of this boot and process namespace; empty where there is no /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def is_gone(pid: int, started: str) -> bool:
    """Check whether the process of this machine with this number and `read_start_time` has ended."""
    try:
        # Signal 0 sends nothing, and fails if there is no such process.
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        # Another user's process, whose start time may be hidden from us.
        return False
    return read_start_time(pid) != started


def read_start_time(pid: int) -> str:
    """Read when a process started; empty if it has ended, or where there is no /proc."""
    try:
        # The kernel cuts the process name in it at 15 bytes, possibly inside a character.
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # The name in parentheses may hold spaces and parentheses itself, so the fields are counted from the last
    # one.
    fields = text.rpartition(")")[2].split()
    state, started = fields[0], fields[19]
    return "" if state in "ZX" else started


def find_user_name() -> str:
    """Find the name of this process's user."""
    try:
        return getpwuid(os.getuid()).pw_name
    except KeyError:  # A container, say.
        return f"user {os.getuid()}"
