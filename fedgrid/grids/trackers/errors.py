"""The error of trackers."""

from fedgrid.engine.federation.errors import FedgridError


class TrackerFailed(FedgridError):
    """A tracker cannot take data: its store is malformed, does not answer or fails."""
