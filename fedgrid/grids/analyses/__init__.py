"""Work on finished runs: what `explain`, `attack` and the analyses of plugins have in common."""
