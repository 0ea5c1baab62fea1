"""Locks and leases: which process may write what."""
