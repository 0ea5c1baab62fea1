"""What every algorithm is given and returns: settings, state, updates."""
