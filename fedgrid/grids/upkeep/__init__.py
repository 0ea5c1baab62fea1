"""Looking after an installation and its storage: `fedgrid doctor`, `delete` and `prune`."""
