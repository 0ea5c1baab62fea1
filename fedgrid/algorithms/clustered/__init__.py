"""Algorithms that put clients into clusters and train a model for each."""
