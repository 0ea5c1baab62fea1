"""Attacks on finished runs: what is particular to `fedgrid attack`."""
