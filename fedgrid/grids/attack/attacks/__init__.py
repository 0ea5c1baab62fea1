"""Attacks on the privacy of clients: what a server, or an owner of its models, learns of their images."""
