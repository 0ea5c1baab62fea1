"""Encoders that are trained before the first round, and kept."""
