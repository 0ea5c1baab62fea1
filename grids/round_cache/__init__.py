"""`fedgrid store`: what the round cache holds and saves, and when it is trimmed."""
