"""Algorithms that cluster by what clients send while they train."""
