"""Files: atomic replacement, the storage of runs and its mirror, the user's cache."""
