"""`fedgrid centralised`: training on the whole pool, and epsilons for Sattler."""
