"""The Ray cluster that a grid runs on: found, or started on this machine; its token, what memory it needs."""
