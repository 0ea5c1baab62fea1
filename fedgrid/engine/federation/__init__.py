"""What the numbers of a run depend on: a function of its configuration, without Ray, Parquet and storage."""
