"""Entries of a round cache as a run would leave them."""

import numpy as np

from fedgrid.engine.runtime.round_cache.files import CacheEntry, CacheOptions, RoundCache, list_entries

STATE, STATISTIC = "000001-abc-mean-all", "000001-abc-reports"


def store_rounds(storage, *runs):
    """Store a state and a statistic of each run's shared prefix."""
    for run in runs:
        files = RoundCache(storage, run.shared_prefix, run.run_id, CacheOptions())
        for name, count in ((STATE, 1000), (STATISTIC, 1)):
            files.write(name, CacheEntry({"x": np.zeros(count, np.float32)}, run.run_id, 1.0, 1.0))


def list_prefixes_with_states(storage):
    """List the shared prefixes that still have a state."""
    return {entry.shared_prefix for entry in list_entries(storage) if entry.is_state}


def list_prefixes_with_statistics(storage):
    """List the shared prefixes that still have a statistic."""
    return {entry.shared_prefix for entry in list_entries(storage) if not entry.is_state}
