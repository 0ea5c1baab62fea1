"""Trackers of runs: their protocol, MLflow, TensorBoard, and the names and tags that both show."""
