"""Work on finished runs: what the package's analyses and those of plugins have in common."""
