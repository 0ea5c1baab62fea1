"""The BibTeX of what a grid uses."""
