"""The contract of every algorithm: settings, state, orders, local rules and aggregators."""
