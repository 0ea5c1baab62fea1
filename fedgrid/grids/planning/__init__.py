"""Before a grid starts: checks, placement, duration, order."""
