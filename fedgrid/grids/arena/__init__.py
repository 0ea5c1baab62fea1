"""The arena: every method tuned alike and run under one protocol, then the verdict."""
