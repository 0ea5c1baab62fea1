"""Shared parts of the papers: their interface, claims and verdicts, cells with a published number."""
