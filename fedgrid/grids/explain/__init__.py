"""Explanations of finished runs: what is particular to the analysis `explain`."""
