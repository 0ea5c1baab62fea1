"""Trackers of runs: what they are told, TensorBoard, and what all of them show of a run."""
