"""Bundles: a grid's results in one file, which others can read, check and compute again."""
