"""Files: atomic replacement, a mirror of a URI, leases."""
