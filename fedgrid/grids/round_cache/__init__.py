"""What the round cache holds and saves (`fedgrid cache`), and when its states are evicted."""
