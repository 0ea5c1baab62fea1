"""Rounds that another run has computed: keys, locks, entries, the store."""
