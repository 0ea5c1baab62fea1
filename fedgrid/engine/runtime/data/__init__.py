"""Data sets: where their files lie, how they are loaded, the digest of their content."""
