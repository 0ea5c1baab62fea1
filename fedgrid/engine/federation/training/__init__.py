"""Local training and evaluation of one model: pure torch."""
