"""What a server does with its clients' updates: no Ray, no MLflow, no files."""
