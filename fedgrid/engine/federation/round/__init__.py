"""One round of a run: which clients take part, what is decided, done and recorded."""
