"""Sattler's epsilons, proposed from a centralised training: an analysis of finished runs."""
