"""Explanations of finished runs: `fedgrid explain`, and what a report reads of them."""
