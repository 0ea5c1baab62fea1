"""Encoders of images: what they compute, and the loss that trains them."""
