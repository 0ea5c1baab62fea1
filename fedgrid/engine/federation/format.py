"""The version of what a run's numbers and files mean; part of every run's id."""

FORMAT = 1
