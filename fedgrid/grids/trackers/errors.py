"""The error of trackers."""

from fedgrid.engine.federation.errors import FedgridError


class TrackerFailed(FedgridError):
    """A tracker cannot be told, as where its store is malformed, does not answer or fails."""
