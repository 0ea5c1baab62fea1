"""Rivals beside references by hand."""
