"""Groups of unequal sizes: which rule of grouping finds them, on stored rounds of plain averaging."""
