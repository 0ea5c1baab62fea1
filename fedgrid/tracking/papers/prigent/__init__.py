"""Prigent et al. 2024."""
