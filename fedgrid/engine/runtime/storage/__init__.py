"""Files: atomic replacement, the storage of runs and its mirror."""
