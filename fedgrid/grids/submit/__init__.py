"""`fedgrid submit`: a grid as a Ray job on a cluster."""
