"""Rivals: methods from the literature, each written as a user would write a plugin."""

# Loads all of them in the one order that works: a rival takes its names from `fedgrid`, which has them from
# `fedgrid.algorithms`, which registers rivals.
import fedgrid.algorithms  # noqa: F401
