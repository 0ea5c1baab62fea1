"""What the terminal shows: progress, tables, summary, status."""
