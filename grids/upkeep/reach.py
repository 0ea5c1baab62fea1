"""Whether what fedgrid uses can be reached: Ray, the storage, MLflow. Starts and creates nothing."""

import shutil
import socket
from collections.abc import Mapping

from fedgrid.engine.errors import RunError
from fedgrid.engine.storage.driver import drivers
from fedgrid.engine.storage.storage import Storage
from fedgrid.grids.ray_cluster import cluster
from fedgrid.grids.ray_cluster.token import check_accepted
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.round_cache.table import readable_size
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


def ray() -> Mapping[str, str]:
    """Return which cluster a grid would run on.

    Raises:
        RunError: it does not answer.
        ConfigError: it refuses this user's token.
    """
    address = cluster.address()
    if address == cluster.LOCAL:
        return {"cluster": "not running; a grid starts one on this machine"}
    host, _, port = address.rpartition(":")
    if "://" not in address and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
        except OSError as error:
            raise RunError(
                f"no answer from the cluster at {address} ({error}); start it, or unset RAY_ADDRESS"
            ) from error
        check_accepted(address)
        return {"cluster": f"{address} answers"}
    return {"cluster": f"{address}, which is not asked here"}


def storage(text: str) -> Mapping[str, str]:
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
    nearest = next(path for path in (found.root, *found.root.parents) if path.exists())
    return {
        "place": str(found)
        + ("" if found.root.exists() or found.uri else " (not there yet; can be written)"),
        "grids": f"{len(grids)}"
        + (f": {', '.join(grids[:10])}{' ...' * (len(grids) > 10)}" if grids else ""),
        "drivers": "; ".join(map(str, using)) or "none",
        "disk": f"{readable_size(shutil.disk_usage(nearest).free)} free",
    }


def mlflow(text: str) -> Mapping[str, str]:
    """Return the MLflow store that a storage's runs are logged to.

    Raises:
        TrackingError: its address is malformed, or it does not answer.
    """
    uri = tracking_uri(Storage.of(text).root)
    own_file(uri, artifact_root(Storage.of(text).root))
    file = database_file(uri)
    if file is not None and not file.exists():
        return {"store": f"{uri} (not there yet; the first grid creates it)"}
    with one_line(uri):
        check_reachable(uri)
    return {"store": f"{uri} answers"}
