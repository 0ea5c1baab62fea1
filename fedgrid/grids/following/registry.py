"""Trackers by name: fedgrid's own, and those of plugins in use."""

from collections.abc import Mapping

from fedgrid.engine.federation.errors import ConfigError, unknown_name_error
from fedgrid.engine.runtime.plugins.active import TRACKERS
from fedgrid.grids.planning.options import NO_TRACKER
from fedgrid.grids.trackers.mlflow.mlflow_tracker import MlflowTracker
from fedgrid.grids.trackers.tensorboard import TensorBoardTracker
from fedgrid.grids.trackers.tracker import Tracker

BUILT_IN: Mapping[str, type[Tracker]] = {
    tracker.name: tracker for tracker in (MlflowTracker, TensorBoardTracker)
}


def find_tracker(name: str) -> type[Tracker]:
    """Find a tracker of fedgrid, or of a plugin in use, which lists it in `TRACKERS`.

    Raises:
        ConfigError: There is no such tracker, or a plugin's has the name of one of fedgrid's.
    """
    # A plugin that silently replaced MLflow would take runs out of it.
    if name in BUILT_IN and name in TRACKERS:
        raise ConfigError(f"tracker '{name}' is both of fedgrid and of a plugin; give yours another name")
    trackers: Mapping[str, type[Tracker]] = {**BUILT_IN, **TRACKERS}
    if name not in trackers:
        raise unknown_name_error("tracker", name, [*trackers, NO_TRACKER])
    return trackers[name]
