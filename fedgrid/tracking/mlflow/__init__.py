"""MLflow: experiments, runs and the UI."""
