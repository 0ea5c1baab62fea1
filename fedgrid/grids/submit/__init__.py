"""Run a grid as a Ray job on a cluster, for `fedgrid submit`."""
