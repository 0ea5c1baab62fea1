"""A user's own algorithms, clusterers and models: files and installed packages, loaded and registered."""
