"""Explanations of finished runs: what is the own of `fedgrid explain`."""
