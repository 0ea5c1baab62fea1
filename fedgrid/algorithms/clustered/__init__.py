"""Algorithms with a model for each group of clients."""
