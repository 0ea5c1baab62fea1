"""Whether the storage and the MLflow store can be reached, and what they hold. Writes nothing."""

from fedgrid.engine.runtime.leases.driver import list_drivers
from fedgrid.engine.runtime.storage.storage import Storage
from fedgrid.grids.doctor.disk import look_at_disk
from fedgrid.grids.doctor.machine import Findings, num_nodes
from fedgrid.grids.results.grid_folder import list_grids
from fedgrid.grids.trackers.mlflow.store import check_reachable, is_missing, one_line, tracking_uri

GRIDS_NAMED = 10


def look_at_storage(text: str) -> Findings:
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
        "drivers": "; ".join(map(str, list_drivers(place))) or "none",
    }
    return Findings(facts | on.facts, on.problems)


def look_at_mlflow(text: str) -> Findings:
    """Return the MLflow store that a storage's runs are logged to.

    Raises:
        TrackerFailed: its address is malformed, or it does not answer.
    """
    uri = tracking_uri(Storage.of(text).root)
    if is_missing(uri):
        return Findings({"store": f"{uri} (not there yet; the first grid creates it)"})
    with one_line(uri):
        check_reachable(uri)
    return Findings({"store": f"{uri} answers"})
