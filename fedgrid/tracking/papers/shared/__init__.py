"""What all papers have: the interface, claims and verdicts, cells beside a published number."""
