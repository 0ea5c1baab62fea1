"""Clients that attack the training, and clients whose data change while it goes on."""
