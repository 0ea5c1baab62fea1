"""Scores of recorded runs, and the tables, figures and reports that show them."""
