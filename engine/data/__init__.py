"""Data sets: where their images come from and how they are read."""
