"""Verdicts of the arena: one method against each rival, in two questions, within each protocol."""
