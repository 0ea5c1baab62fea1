"""Delete grids and superseded runs, with what belongs to them alone."""
