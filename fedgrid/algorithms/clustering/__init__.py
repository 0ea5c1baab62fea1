"""Ways to find groups of clients, shared by several algorithms."""
