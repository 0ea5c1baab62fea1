"""`fedgrid cache`: what the round cache holds and saves, and when it is trimmed."""
