"""OCFL: Zuziak et al. 2025, arXiv:2509.01587, and its journal version on explanations."""
