"""Presets and YAML files, and how the configurations of a grid's runs are made from them."""
