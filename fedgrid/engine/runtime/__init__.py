"""Where and how a run is run: its clients' processes, its folder, what is kept of it."""
