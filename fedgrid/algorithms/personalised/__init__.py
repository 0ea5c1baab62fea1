"""Algorithms that give each client a model of its own: layers that it keeps, or a model that it adapts."""
