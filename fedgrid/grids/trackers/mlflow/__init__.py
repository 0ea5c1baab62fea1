"""MLflow as a tracker: its store, experiments, runs, pages and server."""
