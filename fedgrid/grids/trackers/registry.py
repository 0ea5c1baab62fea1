"""Trackers by name: those of the package, and those that plugins list in `TRACKERS`."""

from collections.abc import Callable, Mapping

from fedgrid.engine.federation.errors import ConfigError, unknown
from fedgrid.engine.runtime.plugins.active import TRACKERS
from fedgrid.grids.trackers.tracker import Tracker

NONE = "none"
DEFAULT = ("mlflow",)


def _mlflow() -> type[Tracker]:
    from fedgrid.grids.trackers.mlflow_tracker import MlflowTracker

    return MlflowTracker


def _tensorboard() -> type[Tracker]:
    from fedgrid.grids.trackers.tensorboard import TensorBoardTracker

    return TensorBoardTracker


BUILT_IN: Mapping[str, Callable[[], type[Tracker]]] = {"mlflow": _mlflow, "tensorboard": _tensorboard}


def tracker_named(name: str) -> type[Tracker]:
    """Return a tracker of the package, or of a plugin in use.

    Raises:
        ConfigError: there is none, or a plugin's has a name of the package.
    """
    if name in BUILT_IN and name in TRACKERS:
        raise ConfigError(f"tracker '{name}' is both of fedgrid and of a plugin; give yours another name")
    if name in BUILT_IN:
        return BUILT_IN[name]()
    if name not in TRACKERS:
        raise unknown("tracker", name, [*BUILT_IN, *TRACKERS, NONE])
    own: type[Tracker] = TRACKERS[name]
    return own


def names_in(text: str) -> tuple[str, ...]:
    """Return the names that `--track` lists, with commas between them; `none`: no tracker.

    Raises:
        ConfigError: `none` stands beside another one.
    """
    names = tuple(dict.fromkeys(name for name in map(str.strip, text.split(",")) if name))
    if NONE in names and names != (NONE,):
        raise ConfigError(f"--track {text}: {NONE} stands alone; leave it out, or the others")
    return () if names == (NONE,) else names or DEFAULT
