"""Each prints a ratio; none is a test."""
