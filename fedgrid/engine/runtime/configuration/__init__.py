"""A run's configuration, completed from part of one, and checked."""
