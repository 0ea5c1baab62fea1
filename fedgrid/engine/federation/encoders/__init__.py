"""Encoders of images: what they are, and where trained ones are kept."""
