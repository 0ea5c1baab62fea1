"""Attacks on finished runs: what is the own of `fedgrid attack`."""
