"""The papers' claims, and whether they hold in a grid's runs."""
