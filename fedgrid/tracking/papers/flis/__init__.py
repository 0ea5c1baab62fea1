"""FLIS: Morafah et al. 2022."""
