"""Bettinelli et al."""
