"""Clustering before training, by what clients say about their data: embeddings, LADD."""
