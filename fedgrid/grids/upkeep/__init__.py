"""Delete grids, superseded runs, and what they alone have."""
