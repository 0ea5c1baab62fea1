"""What a GPU has to hold, measured on it."""
