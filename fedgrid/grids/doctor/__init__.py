"""Examine the machine for `fedgrid doctor`: what is here, and what must be fixed before a grid runs well."""
