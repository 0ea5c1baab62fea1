"""What a storage lies on: a local disk or a network file system, its free space, and whether locks work."""

import fcntl
import os
import re
import shutil
from pathlib import Path
from tempfile import TemporaryFile

from fedgrid.grids.round_cache.table import readable_size
from fedgrid.grids.upkeep.section import Section

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = re.compile(
    r"nfs\d?|cifs|smb\d?|9p|afs|beegfs|ceph|fuse\.(ceph|glusterfs|juicefs|s3fs|sshfs|rclone).*|gfs2|glusterfs|"
    r"gpfs|lustre|ocfs2|orangefs|panfs|pvfs2|virtiofs|wekafs"
)
IN_MEMORY = ("tmpfs", "ramfs")
ESCAPED = re.compile(r"\\([0-7]{3})")
LEAST_FREE = 10**9
SCRATCH = re.compile(r"scratch|/tmp\b", re.IGNORECASE)


def look(root: Path, on_several_machines: bool) -> Section:
    """Return what is found of the folder `root`, which need not be there yet; nothing is left behind.

    `on_several_machines`: whether machines beside this one must see it.
    """
    nearest = next(path for path in (root, *root.parents) if path.exists()).resolve()
    kind, device = file_system(nearest)
    is_remote = NETWORK.fullmatch(kind) is not None
    found = Section({"file system": _described(kind, device, is_remote=is_remote)})
    free = shutil.disk_usage(nearest).free
    found.facts["disk"] = f"{readable_size(free)} free"
    if free < LEAST_FREE:
        found.problems.append(
            f"{readable_size(free)} free in {nearest}; states and records need more: name another folder, or "
            "`fedgrid cache GRID --drop` and `fedgrid delete GRID` free some"
        )
    if on_several_machines and not is_remote:
        found.problems.append(
            f"{nearest} is on this machine alone ({kind}), and the job has several: name a folder that all "
            "of them mount"
        )
    if SCRATCH.search(str(nearest)) or kind in IN_MEMORY:
        found.facts["kept"] = "looks like scratch, which sites purge: copy what you keep"
    why = locks_fail(nearest)
    found.facts["locks"] = f"do not work ({why})" if why else "work"
    if why:
        found.problems.append(
            f"locks do not work in {nearest} ({why}), and MLflow's database needs them: name a place on "
            "another disk in MLFLOW_TRACKING_URI, or have it mounted with locks"
        )
    return found


def file_system(place: Path) -> tuple[str, str]:
    """Return the kind of file system that a folder is on, and its device; `unknown` if that is not told."""
    try:
        lines = MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return "unknown", "unknown"
    found, length = ("unknown", "unknown"), -1
    for line in lines:
        before, _, after = line.partition(" - ")
        mounted = Path(_unescaped(before.split()[4]))
        # Of two mounts at one place the later one is seen.
        if place.is_relative_to(mounted) and len(mounted.parts) >= length:
            kind, device, *_ = after.split()
            found, length = (kind, _unescaped(device)), len(mounted.parts)
    return found


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


def _described(kind: str, device: str, *, is_remote: bool) -> str:
    if is_remote:
        return f"{kind} of {device}, over the network"
    return f"{kind}, in memory: lost at a restart" if kind in IN_MEMORY else f"{kind}, on this machine"


def _unescaped(text: str) -> str:
    """Return a path of /proc, in which a blank is `\\040`."""
    return ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
