"""Updates of a round as an algorithm sees them, and the sums over their entries."""
