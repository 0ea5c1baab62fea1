"""Check that Ray, the storage and the MLflow store can be reached, and describe the storage's disk."""

import fcntl
import os
import shutil
from importlib.metadata import version
from pathlib import Path
from subprocess import DEVNULL, SubprocessError, check_output
from tempfile import TemporaryFile

from fedgrid.engine.runtime.leases.driver import list_drivers
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.display.tables import format_size
from fedgrid.grids.doctor.machine import DoctorSection, count_nodes
from fedgrid.grids.ray_cluster import cluster
from fedgrid.grids.ray_cluster.token import describe_token
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.trackers.mlflow.store import check_reachable, convert_errors, is_missing, tracking_uri

GRIDS_NAMED = 10
LOCAL_FILE_SYSTEMS = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs", "ramfs")
"""Kinds of file systems that only one machine can see."""
LEAST_FREE = 10**9
DF_SECONDS = 5.0
"""Seconds to wait for `df`, which hangs if a network file system does not respond."""


def describe_ray() -> DoctorSection:
    """Describe which cluster a grid would run on.

    Raises:
        ConfigError: it does not answer.
    """
    address = cluster.find_address()
    cluster.check_address(address)
    where = "not running; a grid starts one on this machine" if address == cluster.LOCAL else address
    return DoctorSection({"version": version("ray"), "token": describe_token(), "cluster": where})


def describe_storage(text: str) -> DoctorSection:
    """Describe what a storage contains, which drivers use it, and the disk that it lies on.

    Raises:
        ConfigError: it cannot be written.
        RunError: it cannot be read.
    """
    storage = Storage.from_text(text)
    storage.check_writable()
    storage.pull_marks()
    grids = list_grids(storage)
    is_there = storage.root.exists() or storage.uri
    named = ", ".join(grids[:GRIDS_NAMED]) + " ..." * (len(grids) > GRIDS_NAMED)
    # The nodes of a job all write to this folder, unless the storage is at a URI.
    disk = describe_disk(storage.root, is_shared=count_nodes() > 1 and not storage.uri)
    facts = {
        "place": str(storage) if is_there else f"{storage} (not there yet; can be written)",
        "grids": f"{len(grids)}: {named}" if grids else "none",
        "drivers": "; ".join(map(str, list_drivers(storage))) or "none",
    }
    return DoctorSection(facts | disk.facts, disk.missing)


def describe_disk(root: Path, *, is_shared: bool) -> DoctorSection:
    """Describe the disk of the folder `root`, which need not exist yet; nothing is left behind.

    `is_shared`: whether other machines must see it too.
    """
    # The storage is created by the first grid; until then its parent shows the disk.
    nearest = next(path for path in (root, *root.parents) if path.exists()).resolve()
    kind, free, failure = file_system(nearest), shutil.disk_usage(nearest).free, find_lock_failure(nearest)
    locks = f"do not work ({failure})" if failure else "work"
    section = DoctorSection({"file system": kind, "disk": f"{format_size(free)} free", "locks": locks})
    if free < LEAST_FREE:
        room = f"{format_size(free)} free, of {format_size(LEAST_FREE)}"
        section.missing.append(f"room in {nearest}: {room}")
    if is_shared and kind in LOCAL_FILE_SYSTEMS:
        section.missing.append(f"a folder that all nodes of the job see: {nearest} is local ({kind})")
    if failure:
        section.missing.append(f"locks in {nearest}, which MLflow's database needs: {failure}")
    return section


def file_system(folder: Path) -> str:
    """Find the kind of file system that a folder is on; `unknown` where `df` does not tell."""
    command = ["df", "--output=fstype", "--", str(folder)]
    try:
        return check_output(command, stderr=DEVNULL, text=True, timeout=DF_SECONDS).split()[-1]
    except (OSError, SubprocessError):
        return "unknown"


def find_lock_failure(folder: Path) -> str | None:
    """Find why a file in a folder cannot be locked as SQLite does it; None if it can, or cannot be tried."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return None
    # A file without a name: nothing is left behind, even if this process is killed.
    with TemporaryFile(dir=folder) as file:
        try:
            # POSIX locks, which SQLite uses; a network file system may have others and lack these.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.strerror or str(error)
    return None


def describe_mlflow(text: str) -> DoctorSection:
    """Describe the MLflow store that a storage's runs are logged to.

    Raises:
        TrackerFailed: its address is malformed, or it does not answer.
    """
    uri = tracking_uri(Storage.from_text(text).root)
    if is_missing(uri):
        return DoctorSection({"store": f"{uri} (not there yet; the first grid creates it)"})
    with convert_errors(uri):
        check_reachable(uri)
    return DoctorSection({"store": f"{uri} answers"})
