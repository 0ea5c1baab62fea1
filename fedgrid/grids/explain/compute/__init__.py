"""Saliency of pixels for a model's answer: maps, and the insertion and deletion curves that test them."""
