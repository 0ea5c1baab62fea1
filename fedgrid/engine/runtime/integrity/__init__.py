"""Whether a run's files are those that were written, and what they were made with."""
