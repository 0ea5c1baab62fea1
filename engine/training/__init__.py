"""Local training and testing of one model: pure torch."""
