"""A user's own algorithms, clusterers, models, analyses: files and packages, loaded and registered."""
