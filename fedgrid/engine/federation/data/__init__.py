"""Data sets: images, registry, downloads and readers."""
