"""Work on finished runs: one floor for `explain`, `attack` and the analyses of plugins."""
