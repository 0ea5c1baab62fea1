"""The Ray cluster that a grid runs on: finding or starting it, its nodes, token and memory."""
