"""Scores of runs, and statistics over them."""
