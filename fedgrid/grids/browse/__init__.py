"""Look at a grid on the terminal: its runs by any column, one run, one grid."""
