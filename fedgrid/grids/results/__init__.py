"""The results of a grid so far: outcomes, counts, times, studies."""
