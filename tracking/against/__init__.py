"""Our numbers beside the published ones, with the known reasons why they differ."""
