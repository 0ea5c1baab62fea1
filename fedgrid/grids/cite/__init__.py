"""Collect the BibTeX of what a grid uses."""
