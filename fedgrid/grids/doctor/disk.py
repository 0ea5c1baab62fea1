"""The disk that a storage lies on: its room, its kind of file system, and whether locks work."""

import fcntl
import os
import shutil
from pathlib import Path
from subprocess import DEVNULL, SubprocessError, check_output
from tempfile import TemporaryFile

from fedgrid.grids.display.tables import readable_size
from fedgrid.grids.doctor.machine import Findings

LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs", "ramfs")
"""Kinds of file systems that one machine alone has."""
LEAST_FREE = 10**9
SECONDS = 5.0
"""How long to wait for `df`, which a network that is down holds up."""


def look_at_disk(root: Path, on_several_machines: bool) -> Findings:
    """Return what the folder `root`, which need not be there yet, lies on; nothing is left behind.

    `on_several_machines`: whether machines beside this one must see it.
    """
    nearest = next(path for path in (root, *root.parents) if path.exists()).resolve()
    kind, free, failure = file_system(nearest), shutil.disk_usage(nearest).free, locks_fail(nearest)
    locks = f"do not work ({failure})" if failure else "work"
    section = Findings({"file system": kind, "disk": f"{readable_size(free)} free", "locks": locks})
    if free < LEAST_FREE:
        section.problems.append(
            f"{readable_size(free)} free in {nearest}; states and records need more: name another folder, or "
            "`fedgrid cache GRID --drop` and `fedgrid delete GRID` free some"
        )
    if on_several_machines and kind in LOCAL:
        section.problems.append(
            f"{nearest} is on this machine alone ({kind}), and the job has several: name a folder that all "
            "of them mount"
        )
    if failure:
        section.problems.append(
            f"locks do not work in {nearest} ({failure}), and MLflow's database needs them: name a place on "
            "another disk in MLFLOW_TRACKING_URI, or have it mounted with locks"
        )
    return section


def file_system(folder: Path) -> str:
    """Return the kind of file system that a folder is on, `unknown` where `df` does not tell."""
    command = ["df", "--output=fstype", "--", str(folder)]
    try:
        return check_output(command, stderr=DEVNULL, text=True, timeout=SECONDS).split()[-1]
    except (OSError, SubprocessError):
        return "unknown"


def locks_fail(folder: Path) -> str | None:
    """Return why a file in a folder cannot be locked as SQLite does it; None if it can, or is not known."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return None
    with TemporaryFile(dir=folder) as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.strerror or str(error)
    return None
