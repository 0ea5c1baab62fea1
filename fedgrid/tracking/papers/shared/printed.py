"""Reads printed numbers."""

import csv
from pathlib import Path


def csv_rows(path: Path) -> list[dict[str, str]]:
    """Return a row for each line of a csv file of printed numbers, by the names of its columns."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
