"""The numbers that the papers published."""
