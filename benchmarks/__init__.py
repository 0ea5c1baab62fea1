"""Benchmarks: each prints a ratio; none is a test."""
