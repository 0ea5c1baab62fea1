"""Algorithms that average one model for all, and what clustered ones derive from."""
