"""Algorithms whose clients train by a rule of their own: one model for all, or a model that clients adapt."""
