"""Scores: numbers computed from a run's records (`scores`), runs and studies that hold them, tests over
them.
"""
