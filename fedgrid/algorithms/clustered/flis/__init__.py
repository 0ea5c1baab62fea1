"""FLIS: clusters of clients whose models predict alike on the server's reference images."""
