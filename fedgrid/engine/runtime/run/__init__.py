"""One run, from configuration to finished folder."""
