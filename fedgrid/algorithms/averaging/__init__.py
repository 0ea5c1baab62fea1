"""Algorithms with one model for all."""
