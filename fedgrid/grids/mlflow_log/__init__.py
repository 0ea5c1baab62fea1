"""Logging the runs of a grid to MLflow."""
