"""A Ray cluster of this machine alone: started with few processes, whose workers import torch meanwhile."""
