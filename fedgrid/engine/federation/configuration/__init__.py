"""The configuration of a run: all keys on which its numbers depend."""
