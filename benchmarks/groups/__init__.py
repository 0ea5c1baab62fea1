"""Benchmarks of finding hidden groups, and of not splitting federations that have none."""
