"""Trackers of runs: told what the records of a grid's runs have, while they train and later."""
