"""Generators of data, in NumPy alone; `federation.data.made_by_code` makes data sets of them."""
