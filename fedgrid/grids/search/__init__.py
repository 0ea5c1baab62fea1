"""Searches: grids whose purpose is to choose the settings of an algorithm."""
