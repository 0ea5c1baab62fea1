"""Bundles: a grid's results in one file, which somebody else can read, check and compute again."""
