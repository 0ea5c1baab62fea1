"""The papers: their printed numbers, ours beside them, and their claims. One folder a paper."""
