"""Attacks on finished runs: what is particular to the analysis `attack`."""
