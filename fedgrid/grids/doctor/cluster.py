"""Which Ray cluster a grid would run on, and Ray's processes of this user. Starts nothing."""

import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from fedgrid.grids.doctor.machine import Findings
from fedgrid.grids.ray_cluster import cluster
from fedgrid.grids.ray_cluster.token import describe

PROC = Path("/proc")
SERVERS = ("gcs_server", "raylet")
"""Ray's processes that start the others, which end with them."""
ADOPTERS = ("systemd", "init", "tini", "dumb-init")
"""Programs that become the parents of processes that have lost theirs, beside process 1."""


def look_at_ray() -> Findings:
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
