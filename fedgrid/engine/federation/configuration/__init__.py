"""The configuration of a run: what it holds, what completes it, the algorithm that it names."""
