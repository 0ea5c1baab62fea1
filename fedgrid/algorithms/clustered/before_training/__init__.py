"""Algorithms that cluster before round 1, by messages of the clients about their data."""
