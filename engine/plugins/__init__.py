"""A user's own algorithms, clusterers, models and analyses: files and installed packages, loaded and registered."""
