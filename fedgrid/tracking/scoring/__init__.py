"""Scores computed from a run's records, the runs and studies that hold them, and tests over them."""
