"""Grids of clustered federated learning experiments on Ray."""
