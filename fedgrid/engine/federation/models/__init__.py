"""The networks that a run can train, and their state as flat vectors."""
