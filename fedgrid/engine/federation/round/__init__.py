"""One round of a run: who takes part, what is decided, done and recorded."""
