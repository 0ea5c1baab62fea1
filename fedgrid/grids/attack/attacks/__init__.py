"""Attacks on the privacy of clients: what a server, or whoever gets its models, learns of their images."""
