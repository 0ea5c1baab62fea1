"""What is said of published data sets, facts and papers; `federation.data.registry` makes entries of it."""
