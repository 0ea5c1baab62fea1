"""Whether what fedgrid uses can be reached: Ray, the storage, MLflow. Starts and creates nothing."""

import socket
from importlib.metadata import version

from fedgrid.engine.federation.errors import RunError
from fedgrid.engine.runtime.leases.driver import drivers
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.ray_cluster import cluster
from fedgrid.grids.ray_cluster.token import check_accepted, described
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.upkeep import disk, slurm
from fedgrid.grids.upkeep.leftovers import ray_servers
from fedgrid.grids.upkeep.section import Section
from fedgrid.tracking.mlflow.own_files import own_file
from fedgrid.tracking.mlflow.store import (
    artifact_root,
    check_reachable,
    database_file,
    one_line,
    tracking_uri,
)

SECONDS = 3.0
"""How long to wait for an answer."""


def ray() -> Section:
    """Return which cluster a grid would run on.

    Raises:
        RunError: it does not answer.
        ConfigError: it refuses this user's token.
    """
    address = cluster.address()
    found = Section({"version": version("ray"), "token": described()})
    _servers(found, address)
    if address == cluster.LOCAL:
        found.facts["cluster"] = "not running; a grid starts one on this machine"
        return found
    host, _, port = address.rpartition(":")
    if "://" not in address and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
        except OSError as error:
            raise RunError(
                f"no answer from the cluster at {address} ({error}); start it, or unset RAY_ADDRESS"
            ) from error
        check_accepted(address)
        found.facts["cluster"] = f"{address} answers"
    else:
        found.facts["cluster"] = f"{address}, which is not asked here"
    return found


def _servers(found: Section, address: str) -> None:
    """Tell of this user's Ray processes; of a cluster that is not in use, orphans are left over."""
    servers = ray_servers()
    found.facts["processes of yours"] = ", ".join(map(str, servers)) or "none"
    left = [server for server in servers if server.is_orphan] if address == cluster.LOCAL else []
    if left:
        found.problems.append(
            f"the program that started them has ended: {', '.join(map(str, left))}; if no cluster of yours "
            f"needs them: kill {' '.join(str(server.pid) for server in left)}"
        )


def storage(text: str) -> Section:
    """Return what a storage holds, and which driver has it.

    Raises:
        ConfigError: it cannot be written.
        RunError: it cannot be read.
    """
    found = Storage.of(text)
    found.check_writable()
    found.pull_marks()
    using = drivers(found)
    grids = list_grids(found)
    below = disk.look(found.root, on_several_machines=slurm.num_nodes() > 1 and not found.uri)
    facts = {
        "place": str(found)
        + ("" if found.root.exists() or found.uri else " (not there yet; can be written)"),
        "grids": f"{len(grids)}"
        + (f": {', '.join(grids[:10])}{' ...' * (len(grids) > 10)}" if grids else ""),
        "drivers": "; ".join(map(str, using)) or "none",
    }
    return Section(facts | below.facts, below.problems)


def mlflow(text: str) -> Section:
    """Return the MLflow store that a storage's runs are logged to.

    Raises:
        TrackingError: its address is malformed, or it does not answer.
    """
    uri = tracking_uri(Storage.of(text).root)
    own_file(uri, artifact_root(Storage.of(text).root))
    file = database_file(uri)
    if file is not None and not file.exists():
        return Section({"store": f"{uri} (not there yet; the first grid creates it)"})
    with one_line(uri):
        check_reachable(uri)
    return Section({"store": f"{uri} answers"})
