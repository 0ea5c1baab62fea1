"""Rounds that another run has computed: keys, locks, entries, files."""
