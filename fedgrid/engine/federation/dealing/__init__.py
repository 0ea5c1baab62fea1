"""Which client gets which images: training, tests, the server's part."""
