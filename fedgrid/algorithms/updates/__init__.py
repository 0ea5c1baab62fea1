"""What a server sees of its clients' updates: vectors, their layout, products and means."""
