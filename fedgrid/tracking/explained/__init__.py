"""Scores of explanations, published ones and of one's own runs: comparisons and box plots."""
