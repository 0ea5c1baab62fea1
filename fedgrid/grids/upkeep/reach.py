"""Whether what fedgrid uses can be reached: Ray, the storage, MLflow. Starts and creates nothing."""

from importlib.metadata import version

from fedgrid.engine.runtime.leases.driver import drivers
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.ray_cluster import cluster
from fedgrid.grids.ray_cluster.token import describe
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.trackers.mlflow.own_store import own_file
from fedgrid.grids.trackers.mlflow.store import (
    artifact_root,
    check_reachable,
    is_missing,
    one_line,
    tracking_uri,
)
from fedgrid.grids.upkeep import disk, slurm
from fedgrid.grids.upkeep.leftovers import ray_servers
from fedgrid.grids.upkeep.section import Section

GRIDS_NAMED = 10


def ray() -> Section:
    """Return which cluster a grid would run on.

    Raises:
        ConfigError: it does not answer.
    """
    address, servers = cluster.address(), ray_servers()
    names = ", ".join(f"{name} {number}" for number, (name, _) in servers.items())
    section = Section({"version": version("ray"), "token": describe(), "processes of yours": names or "none"})
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


def storage(text: str) -> Section:
    """Return what a storage holds, and which driver has it.

    Raises:
        ConfigError: it cannot be written.
        RunError: it cannot be read.
    """
    place = Storage.of(text)
    place.check_writable()
    place.pull_marks()
    grids = list_grids(place)
    on = disk.look(place.root, on_several_machines=slurm.num_nodes() > 1 and not place.uri)
    is_there = place.root.exists() or place.uri
    named = ", ".join(grids[:GRIDS_NAMED]) + " ..." * (len(grids) > GRIDS_NAMED)
    facts = {
        "place": str(place) if is_there else f"{place} (not there yet; can be written)",
        "grids": f"{len(grids)}: {named}" if grids else "none",
        "drivers": "; ".join(map(str, drivers(place))) or "none",
    }
    return Section(facts | on.facts, on.problems)


def mlflow(text: str) -> Section:
    """Return the MLflow store that a storage's runs are logged to.

    Raises:
        TrackerFailed: its address is malformed, or it does not answer.
    """
    uri = tracking_uri(Storage.of(text).root)
    own_file(uri, artifact_root(Storage.of(text).root))
    if is_missing(uri):
        return Section({"store": f"{uri} (not there yet; the first grid creates it)"})
    with one_line(uri):
        check_reachable(uri)
    return Section({"store": f"{uri} answers"})
