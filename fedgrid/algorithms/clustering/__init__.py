"""Clusterers and measures that several algorithms share: distances in, groups of clients out."""
