"""Attacks on finished runs: `fedgrid attack`."""
