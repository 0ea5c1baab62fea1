"""FLIS: clusters of clients whose models predict the same classes on images that the server has."""
