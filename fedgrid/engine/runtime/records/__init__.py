"""The tables of a run: their columns and schemas."""
