"""What a paper says of a grid: a methods paragraph, and the BibTeX of what it uses."""
