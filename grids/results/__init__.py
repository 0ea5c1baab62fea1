"""What a grid has produced so far: outcomes, counts, times, studies."""
