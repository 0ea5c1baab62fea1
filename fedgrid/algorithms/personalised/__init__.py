"""Algorithms in which each client is tested with a model of its own, derived from a common one."""
