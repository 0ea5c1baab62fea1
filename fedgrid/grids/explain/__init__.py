"""Explanations of finished runs: what is particular to `fedgrid explain`."""
