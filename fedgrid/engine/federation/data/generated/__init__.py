"""Data sets made by code, the same for every run: nothing is downloaded."""
