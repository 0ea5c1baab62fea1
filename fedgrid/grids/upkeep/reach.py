"""Whether what fedgrid uses can be reached: Ray, the storage, its disk, MLflow. Starts nothing."""

import fcntl
import os
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from subprocess import DEVNULL, SubprocessError, check_output
from tempfile import TemporaryFile

from fedgrid.engine.runtime.leases.driver import drivers
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.ray_cluster import cluster
from fedgrid.grids.ray_cluster.token import describe
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.round_cache.table import readable_size
from fedgrid.grids.trackers.mlflow.own_store import own_file
from fedgrid.grids.trackers.mlflow.store import (
    artifact_root,
    check_reachable,
    is_missing,
    one_line,
    tracking_uri,
)
from fedgrid.grids.upkeep.machine import Findings, num_nodes

GRIDS_NAMED = 10
PROC = Path("/proc")
SERVERS = ("gcs_server", "raylet")
"""Ray's processes that start the others, which end with them."""
ADOPTERS = ("systemd", "init", "tini", "dumb-init")
"""Programs that become the parents of processes that have lost theirs, beside process 1."""
LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs", "ramfs")
"""Kinds of file systems that one machine alone has."""
LEAST_FREE = 10**9
SECONDS = 5.0
"""How long to wait for `df`, which a network that is down holds up."""


def ray() -> Findings:
    """Return which cluster a grid would run on.

    Raises:
        ConfigError: it does not answer.
    """
    address, servers = cluster.address(), ray_servers()
    names = ", ".join(f"{name} {number}" for number, (name, _) in servers.items())
    section = Findings(
        {"version": version("ray"), "token": describe(), "processes of yours": names or "none"}
    )
    orphans = [str(number) for number, (_, is_orphan) in servers.items() if is_orphan]
    if address != cluster.LOCAL:
        cluster.check_answers(address)
        section.facts["cluster"] = address
        return section
    section.facts["cluster"] = "not running; a grid starts one on this machine"
    if orphans:
        section.problems.append(
            f"the program that started {', '.join(orphans)} has ended; if no cluster of yours needs "
            f"them: kill {' '.join(orphans)}"
        )
    return section


def storage(text: str) -> Findings:
    """Return what a storage holds, and which driver has it.

    Raises:
        ConfigError: it cannot be written.
        RunError: it cannot be read.
    """
    place = Storage.of(text)
    place.check_writable()
    place.pull_marks()
    grids = list_grids(place)
    on = look_at_disk(place.root, on_several_machines=num_nodes() > 1 and not place.uri)
    is_there = place.root.exists() or place.uri
    named = ", ".join(grids[:GRIDS_NAMED]) + " ..." * (len(grids) > GRIDS_NAMED)
    facts = {
        "place": str(place) if is_there else f"{place} (not there yet; can be written)",
        "grids": f"{len(grids)}: {named}" if grids else "none",
        "drivers": "; ".join(map(str, drivers(place))) or "none",
    }
    return Findings(facts | on.facts, on.problems)


def mlflow(text: str) -> Findings:
    """Return the MLflow store that a storage's runs are logged to.

    Raises:
        TrackerFailed: its address is malformed, or it does not answer.
    """
    uri = tracking_uri(Storage.of(text).root)
    own_file(uri, artifact_root(Storage.of(text).root))
    if is_missing(uri):
        return Findings({"store": f"{uri} (not there yet; the first grid creates it)"})
    with one_line(uri):
        check_reachable(uri)
    return Findings({"store": f"{uri} answers"})


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
