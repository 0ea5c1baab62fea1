"""The version of all files of a run and of what their numbers mean; part of every run's id."""

FORMAT = 2
"""2: random numbers are keyed by scenario; every file has this number, files without one are of format 1."""
