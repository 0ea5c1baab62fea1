"""Analyses of finished runs: what fedgrid's own and those of plugins have in common."""
