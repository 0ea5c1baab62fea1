"""Searches: grids whose point is to pick the settings of an algorithm."""
