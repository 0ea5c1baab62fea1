"""Where data sets lie: found, loaded, told apart by their content."""
