"""Robust means: aggregators that a few attackers in a group cannot move far (docs/robust.md)."""
